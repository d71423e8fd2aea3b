"""Folders named ``gs:`` in which a program wrote what it meant for a bucket.

``os.makedirs("gs://bucket/model")`` and ``open()`` take a URI for a path below the folder in which
the program starts.  Its files are not in the bucket, and the job succeeds all the same.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from trainshed.engines.isolation import mounts
from trainshed.engines.isolation.modes import LANDLOCK, SANDBOX, USERS
from trainshed.engines.supervise.record.spec import AttemptSpec, ReplicaSpec
from trainshed.files.beneath import Beneath

_FOLDER: Final = "gs:"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}")


def list_warnings(spec: AttemptSpec) -> Iterator[str]:
    """Yield one sentence for each folder of a program that has a ``gs:``; it costs one open."""
    replicas = {replica.cwd: replica for replica in reversed(spec.replicas) if replica.cwd}
    for cwd, replica in replicas.items():
        with suppress(OSError):
            yield _warning(_bucket_in(cwd), replica)


def _bucket_in(cwd: str) -> str:
    """Return the name of one bucket in the folder.  Raises OSError where there is no folder."""
    with Beneath(cwd) as work:
        name = next((name for name, _ in work.entries(_FOLDER, 1)), "")
    return name if _BUCKET.fullmatch(name) else "BUCKET"


def _warning(bucket: str, replica: ReplicaSpec) -> str:
    place = _place_of(bucket, replica)
    return (
        f"the program wrote to a local folder gs:/{bucket}, and not to the bucket; open "
        f"gs://{bucket} by TensorFlow's file API or a storage client{place}"
    )


def _place_of(bucket: str, replica: ReplicaSpec) -> str:
    """Name the folder at which ``open()`` reaches the bucket; nothing where there is none."""
    mode = replica.isolation.mode if replica.isolation else ""
    has_mounts = mode in {USERS, SANDBOX} or (mode != LANDLOCK and mounts.allowed())
    if has_mounts and any(there.startswith(f"{mounts.GCS}/") for _, there in replica.binds):
        return f", or write to {mounts.GCS}/{bucket}/..."
    if "TRAINSHED_BUCKETS" in replica.env:
        return f", or write to {replica.env['TRAINSHED_BUCKETS']}/{bucket}/..."
    return ""
