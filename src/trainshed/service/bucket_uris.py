"""The ``gs://`` URIs and ``/gcs`` paths of a job.

URIs are well formed, and of buckets that the job's project may use.  At Google every container sees
its buckets below ``/gcs``; the SDK's ``from_local_script`` relies on it for images of one's own
(contracts/vertex-sdk.md 4.3).  Containers get the mount for certain.  Processes get it where the
machine lets them; so their words name the bucket's own folder.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trainshed.model.faults import Field, FieldPath, UsageFault, Violation
from trainshed.model.job import JobSpec, Program
from trainshed.model.refusals import Code, Refusal
from trainshed.model.roles import Role
from trainshed.storage.buckets import SCHEME, Buckets, is_bucket_name, split

if TYPE_CHECKING:  # local runs have no store, and do without its packages
    from trainshed.store.opening import Store


def malformed_uris(spec: JobSpec) -> Iterator[Violation]:
    """URIs that cannot be found here.  A package on the server's own disk is none of the job's."""
    for place in (spec.job_dir, spec.base_output_dir):
        if place and place.startswith(SCHEME):
            yield from _malformed(FieldPath(Field.JOB_DIR), "job-dir", place)
    for group in spec.groups:
        path = FieldPath(Field.PACKAGE_URIS, group.role)
        for uri in group.program.package_uris if group.program else ():
            yield from _malformed(path, "package-uris", uri)


def _malformed(path: FieldPath, rule: str, uri: str) -> Iterator[Violation]:
    try:
        split(uri)
    except UsageFault as fault:
        accepted = "gs://BUCKET/NAME"
        yield Violation(field=path, rule=rule, message=str(fault), accepted=accepted)


def claim_buckets(store: "Store", project: str, spec: JobSpec) -> None:
    """Let the project have the buckets that its job writes to; a bucket has one project.

    Raises Refusal (PERMISSION_DENIED) for a bucket of another project.
    """
    written = {_bucket(uri) for uri in (spec.job_dir, spec.base_output_dir) if uri}
    programs = [group.program for group in spec.groups if group.program]
    read = {_bucket(uri) for program in programs for uri in program.package_uris}
    for bucket in sorted((written | read) - {""}):
        known = store.bucket(bucket)
        owner = known[0] if known else project
        if not known and bucket in written:
            owner = store.add_bucket(bucket, project)
        if owner != project:
            message = f"the bucket {bucket} belongs to another project"
            raise Refusal(Code.PERMISSION_DENIED, message)


def _bucket(uri: str) -> str:
    return split(uri)[0] if uri.startswith(SCHEME) else ""


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
    """The spec whose programs name folders of this machine, and what the job's log says of it.

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
    spec: JobSpec, project: str, buckets: Buckets, store: "Store"
) -> tuple[tuple[str, str], ...]:
    """(folder, mount) of the buckets that a job may see and that are there.

    Those are its project's, and of those that nobody owns the ones that it names.
    """
    nobodys = (name for name in sorted(named(spec)) if store.bucket(name) is None)
    wanted = dict.fromkeys([*sorted(store.buckets(project)), *nobodys])
    folders = {name: buckets.path_of(f"{SCHEME}{name}") for name in wanted}
    return tuple((str(path), f"{GCS}/{name}") for name, path in folders.items() if path.is_dir())


def named(spec: JobSpec) -> set[str]:
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
