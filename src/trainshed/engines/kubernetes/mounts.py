"""Composes the volumes of pods and their mounts.

A pod sees only parts of the claim: the shared library, read-only, and the buckets of the job's
project.  Only the launcher sees the folder of the attempt.
"""

from collections.abc import Iterator
from typing import Any, Final

from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.quantities import write_bytes
from trainshed.engines.kubernetes.request import ManifestRequest
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.roles import Role

#: Folders in pods: that of all others, the runtime and the archives, the folder of the attempt, the
#: working folder of programs, and the metric files of a trial.
ROOT: Final = "/trainshed"
LIBRARY: Final = f"{ROOT}/lib"
ATTEMPT: Final = f"{ROOT}/attempt"
WORK: Final = f"{ROOT}/work"
METRICS: Final = f"{ROOT}/metrics"
TEMPORARY: Final = "/tmp"  # noqa: S108 - a folder of a pod
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the same
#: The folder in pods that contains one folder for each bucket.
BUCKETS: Final = "/gcs"

_SPOOL_VOLUME: Final = "spool"
#: Folders in pods that begin empty, with the names of their volumes.
_EMPTY: Final = {"work": WORK, "tmp": TEMPORARY, "shm": SHARED_MEMORY}
_METRICS_VOLUME: Final = "metrics"


def library_path(installation: str) -> str:
    """Return the path in the claim of the runtime and the archives."""
    return f"{installation}/lib"


def attempt_path(installation: str, key: AttemptKey) -> str:
    """Return the path in the claim of the folder of an attempt."""
    return f"{installation}/jobs/{key.uid}/{key.attempt}"


def buckets_path(installation: str, options: KubernetesOptions) -> str:
    """Return the path in the claim of the folder of all buckets."""
    return options.buckets or f"{installation}/buckets"


def list_volumes(request: ManifestRequest, role: Role) -> list[dict[str, Any]]:
    """List the volumes of the pods of a role."""
    options = request.options
    disk = (
        {} if options.work_bytes_max is None else {"sizeLimit": write_bytes(options.work_bytes_max)}
    )
    memory = {} if options.shm_bytes is None else {"sizeLimit": write_bytes(options.shm_bytes)}
    folders = {"work": disk, "tmp": disk, "shm": {"medium": "Memory", **memory}}
    if role is Role.PRIMARY:
        folders[_METRICS_VOLUME] = disk
    claim = {"claimName": options.claim}
    return [
        {"name": _SPOOL_VOLUME, "persistentVolumeClaim": claim},
        *({"name": name, "emptyDir": dict(folder)} for name, folder in folders.items()),
    ]


def list_main_mounts(request: ManifestRequest, role: Role) -> list[dict[str, Any]]:
    """List the mounts of a replica's container.  Raises EngineFault for the name of a bucket."""
    folders = [{"name": name, "mountPath": path} for name, path in _EMPTY.items()]
    if role is Role.PRIMARY:
        folders.append(_compose_metrics_mount())
    return [_compose_library_mount(request), *folders, *_list_bucket_mounts(request)]


def list_launcher_mounts(request: ManifestRequest) -> list[dict[str, Any]]:
    """List the mounts of a launcher: it alone can read and write the folder of the attempt.

    It reads the checkpoints and the event files of programs in the buckets.
    """
    path = attempt_path(request.installation, request.key)
    attempt = {"name": _SPOOL_VOLUME, "mountPath": ATTEMPT, "subPath": path}
    buckets = ({**mount, "readOnly": True} for mount in _list_bucket_mounts(request))
    return [_compose_library_mount(request), attempt, _compose_metrics_mount(), *buckets]


def list_probe_mounts(request: ManifestRequest, folder: str) -> list[dict[str, Any]]:
    """List the mounts of a container of a probe, whose files are in a folder of the claim."""
    own = {"name": _SPOOL_VOLUME, "mountPath": ATTEMPT, "subPath": folder}
    return [_compose_library_mount(request), own]


def _compose_library_mount(request: ManifestRequest) -> dict[str, Any]:
    path = library_path(request.installation)
    return {"name": _SPOOL_VOLUME, "mountPath": LIBRARY, "subPath": path, "readOnly": True}


def _compose_metrics_mount() -> dict[str, Any]:
    return {"name": _METRICS_VOLUME, "mountPath": METRICS}


def _list_bucket_mounts(request: ManifestRequest) -> Iterator[dict[str, Any]]:
    folder = buckets_path(request.installation, request.options)
    for bucket in request.buckets:
        if not bucket or "/" in bucket or bucket.startswith("."):
            raise EngineFault(
                f"cannot mount the bucket {bucket!r}: its name is no name of a folder"
            )
        path = f"{BUCKETS}/{bucket}"
        yield {"name": _SPOOL_VOLUME, "mountPath": path, "subPath": f"{folder}/{bucket}"}
