"""Finds folders named ``gs:``, into which a program wrote files that it meant for a bucket.

``os.makedirs("gs://bucket/model")`` and ``open()`` treat a URI as a path below the working folder
of the program.  The files are then not in the bucket, although the job succeeds.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from trainshed.engines.isolation.modes import GCS, LANDLOCK, SANDBOX, USERS
from trainshed.engines.supervise.record.spec import AttemptSpec, ReplicaSpec
from trainshed.files.beneath import Beneath

_FOLDER: Final = "gs:"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}")


def list_warnings(spec: AttemptSpec) -> Iterator[str]:
    """Yield one warning for each working folder that has a folder ``gs:``."""
    replicas = {replica.cwd: replica for replica in reversed(spec.replicas) if replica.cwd}
    for cwd, replica in replicas.items():
        with suppress(OSError):
            yield _make_warning(_find_bucket(cwd), replica)


def _find_bucket(cwd: str) -> str:
    """Return one bucket's name from the folder ``gs:``; without a valid name, ``BUCKET``.

    Raises OSError if there is no such folder.
    """
    with Beneath(cwd) as work:
        name = next((name for name, _ in work.entries(_FOLDER, 1)), "")
    return name if _BUCKET.fullmatch(name) else "BUCKET"


def _make_warning(bucket: str, replica: ReplicaSpec) -> str:
    return (
        f"the program wrote to a local folder gs:/{bucket}, and not to the bucket; open "
        f"gs://{bucket} by TensorFlow's file API or a storage client"
        f"{_suggest_folder(bucket, replica)}"
    )


def _suggest_folder(bucket: str, replica: ReplicaSpec) -> str:
    """Return text that names the bucket's folder for ``open()``; empty if there is none."""
    mode = replica.isolation.mode if replica.isolation else ""
    if any(target.startswith(f"{GCS}/") for _, target in replica.binds) and _has_mounts(mode):
        return f", or write to {GCS}/{bucket}/..."
    if "TRAINSHED_BUCKETS" in replica.env:
        return f", or write to {replica.env['TRAINSHED_BUCKETS']}/{bucket}/..."
    return ""


def _has_mounts(mode: str) -> bool:
    """Return whether programs of an isolation mode have the mounts of their plan."""
    from trainshed.engines.isolation import mounts  # noqa: PLC0415 - imported before the replica started

    return mode in {USERS, SANDBOX} or (mode != LANDLOCK and mounts.allowed())
