"""``/gcs/BUCKET``: a mount where one is possible, and the bucket's own folder where it is not.

At Google every container sees its buckets there; the SDK's ``from_local_script`` relies on it for
images of one's own (contracts/vertex-sdk.md 4.3).  Containers get the mount for certain.  Processes
get it where the machine lets them; so their words name the folder itself.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from trainshed.model.job import JobSpec, Program
from trainshed.model.roles import Role
from trainshed.storage.buckets import SCHEME, Buckets, is_bucket_name, split
from trainshed.store.base import Rest

#: A mount path at the start of a word: behind nothing, a blank, a quote, = : , ( or ;.
MOUNT: Final = re.compile(
    r"(?<![^\s\"'=:,(;])/gcs/(?P<bucket>[a-z0-9][a-z0-9._-]*)(?=$|[/\s\"',;)])"
)

#: Where buckets are mounted.
GCS: Final = "/gcs"

NOTE: Final = "In commands, args and env of processes, /gcs/{bucket} became {folder}."


def with_real_paths(
    spec: JobSpec, buckets: Buckets, in_containers: Collection[Role] = ()
) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec whose programs name folders of this machine, and what the job is told of it.

    The words of containers stay as they are.
    """
    found: dict[str, None] = {}
    groups = tuple(
        replace(group, program=_mapped(group.program, buckets, found))
        if group.program and group.role not in in_containers
        else group
        for group in spec.groups
    )
    notes = tuple(
        NOTE.format(bucket=bucket, folder=buckets.path_of(f"{SCHEME}{bucket}")) for bucket in found
    )
    return replace(spec, groups=groups), notes


def mounted(
    spec: JobSpec, project: str, buckets: Buckets, store: Rest
) -> tuple[tuple[str, str], ...]:
    """(folder, mount) of the buckets that a job may see and that are there.

    Those are its project's, and of those that nobody owns the ones that it names.
    """
    nobodys = (name for name in sorted(_named(spec)) if store.bucket(name) is None)
    wanted = dict.fromkeys([*sorted(store.buckets(project)), *nobodys])
    folders = {name: buckets.path_of(f"{SCHEME}{name}") for name in wanted}
    return tuple((str(path), f"{GCS}/{name}") for name, path in folders.items() if path.is_dir())


def _named(spec: JobSpec) -> set[str]:
    """The buckets of mount paths and of packages."""
    programs = [group.program for group in spec.groups if group.program]
    words = [word for program in programs for word in _words(program)]
    found = {match["bucket"] for word in words for match in MOUNT.finditer(word)}
    uris = [uri for program in programs for uri in program.package_uris]
    found |= {split(uri)[0] for uri in uris if uri.startswith(SCHEME)}
    return {name for name in found if is_bucket_name(name)}


def _words(program: Program) -> Iterator[str]:
    yield from (*program.command, *program.args)
    yield from (value for _, value in program.env)


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
