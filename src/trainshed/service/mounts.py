"""``/gcs/BUCKET`` without a mount: the path in a command becomes the bucket's own folder.

At Google every container sees its buckets there; the SDK's ``from_local_script`` relies on it for
images of one's own (contracts/vertex-sdk.md 4.3).
"""

import re
from dataclasses import replace
from typing import Final

from trainshed.model.job import JobSpec, Program
from trainshed.storage.buckets import SCHEME, Buckets, is_bucket_name

#: A mount path at the start of a word: behind nothing, a blank, a quote, = : , ( or ;.
MOUNT: Final = re.compile(
    r"(?<![^\s\"'=:,(;])/gcs/(?P<bucket>[a-z0-9][a-z0-9._-]*)(?=$|[/\s\"',;)])"
)

NOTE: Final = "/gcs is not mounted here: in commands, args and env, /gcs/{bucket} became {folder}."


def with_real_paths(spec: JobSpec, buckets: Buckets) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec whose programs name folders of this machine, and what the job is told of it."""
    found: dict[str, None] = {}
    groups = tuple(
        replace(group, program=_mapped(group.program, buckets, found)) if group.program else group
        for group in spec.groups
    )
    notes = tuple(
        NOTE.format(bucket=bucket, folder=buckets.path_of(f"{SCHEME}{bucket}")) for bucket in found
    )
    return replace(spec, groups=groups), notes


def _mapped(program: Program, buckets: Buckets, found: dict[str, None]) -> Program:
    def real(match: re.Match[str]) -> str:
        bucket = match["bucket"]
        if not is_bucket_name(bucket):
            return match[0]
        found[bucket] = None
        return str(buckets.path_of(f"{SCHEME}{bucket}"))

    return replace(
        program,
        command=tuple(MOUNT.sub(real, word) for word in program.command),
        args=tuple(MOUNT.sub(real, word) for word in program.args),
        env=tuple((name, MOUNT.sub(real, value)) for name, value in program.env),
    )
