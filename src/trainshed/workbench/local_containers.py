"""The containers of a local run: the replicas that run in one, and the folders that it mounts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainshed.engines.container_runtime import Runtime, RuntimeChoice
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.service.starts.bucket_uris import GCS, named
from trainshed.service.starts.images import CONTAINER, ImageMapping, Images
from trainshed.service.starts.stand_ins import stand_ins
from trainshed.storage.buckets import SCHEME, Buckets

#: With the flag for containers, every image runs itself and no environment replaces it.
_ITSELF: Final = ImageMapping(environment=CONTAINER, image="*")


def contained(spec: JobSpec, python: str, runtime: Runtime) -> dict[Role, str]:
    """Return the roles that run in their own images, each with a sentence for the job's log."""
    by_role = stand_ins(spec, Images((), (_ITSELF,), python, RuntimeChoice(runtime)))
    return {
        role: stand_in.note
        for role, stand_in in by_role.items()
        if stand_in and stand_in.is_container
    }


def binds(
    spec: JobSpec, buckets: Buckets, output: Path | None, packages: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return (folder on the host, folder in the container) for buckets, output and packages."""
    folders = [
        (buckets.path_of(f"{SCHEME}{name}"), f"{GCS}/{name}") for name in sorted(named(spec))
    ]
    mounts = [(str(path), inside) for path, inside in folders if _will_be(path, output)]
    in_bucket = any((uri or "").startswith(SCHEME) for uri in (spec.job_dir, spec.base_output_dir))
    outputs = [str(output)] if output and not in_bucket else []
    return (*mounts, *((place, place) for place in (*outputs, *packages)))


def _will_be(bucket: Path, output: Path | None) -> bool:
    """Return whether making the job's output folder makes the bucket."""
    return bucket.is_dir() or (output is not None and output.is_relative_to(bucket))
