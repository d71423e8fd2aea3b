"""Checks the ``gs://`` URIs and ``/gcs`` paths of a job, and replaces them by paths.

URIs must be well formed and name buckets of the job's project.  Another project's bucket, and
a folder without a project, get the same error as a bucket that does not exist.  At Google every
container has its buckets below ``/gcs``; the SDK's ``from_local_script`` relies on it for custom
images (docs/sources/vertex.md 4.3).  Containers always get the mount.  Processes get it only if the
machine allows it, so their arguments name the bucket's folder instead.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from trainshed.model.faults import Field, FieldPath, UsageFault, Violation
from trainshed.model.job import JobSpec, Program
from trainshed.model.roles import Role
from trainshed.storage.buckets import SCHEME, Buckets, is_bucket_name, split

if TYPE_CHECKING:  # local runs have no store, and do without its packages
    from trainshed.store.opening import Store

#: Whether the job's project has a bucket of this name.
HasBucket = Callable[[str], bool]


def buckets_of_project(store: "Store", project: str) -> HasBucket:
    """Return a function that tells whether a bucket belongs to the project."""

    def has(name: str) -> bool:
        bucket = store.bucket(name)
        return bucket is not None and bucket[0] == project

    return has


def check_places(spec: JobSpec, has_bucket: HasBucket) -> Iterator[Violation]:
    """Yield violations: malformed URIs, paths outside the work folder, buckets of other projects.

    A local run, which does not call this, may name any path of its machine.
    """
    yield from _malformed_uris(spec)
    for directory in _directories(spec):
        if not directory.startswith(SCHEME) and _leaves_the_job(directory):
            yield _path_violation(directory)
    yield from missing_buckets(spec, has_bucket)


def missing_buckets(spec: JobSpec, has_bucket: HasBucket) -> Iterator[Violation]:
    """Yield violations of buckets that do not belong to the project."""
    for path, bucket in (*_list_uri_buckets(spec), *_list_word_buckets(spec)):
        if not has_bucket(bucket):
            yield Violation(
                field=path,
                rule="no-bucket",
                message=NO_BUCKET.format(bucket=bucket),
                accepted=f"a bucket of the project; trainshed buckets create {bucket} makes one",
            )


#: The same message for a bucket that does not exist and for another project's.
NO_BUCKET: Final = "the project has no bucket {bucket}"


def check_buckets(spec: JobSpec, has_bucket: HasBucket) -> None:
    """Check the buckets again when a job is launched.  Raises UsageFault."""
    for _, bucket in _list_uri_buckets(spec):
        if not has_bucket(bucket):
            raise UsageFault(NO_BUCKET.format(bucket=bucket))


def _malformed_uris(spec: JobSpec) -> Iterator[Violation]:
    """Yield malformed URIs, and packages on the server's own disk."""
    for directory in _directories(spec):
        if directory.startswith(SCHEME):
            yield from _malformed(FieldPath(Field.JOB_DIR), "job-dir", directory)
    for path, uri in _packages(spec):
        yield from _malformed(path, "package-uris", uri)


def _malformed(path: FieldPath, rule: str, uri: str) -> Iterator[Violation]:
    try:
        split(uri)
    except UsageFault as fault:
        accepted = "gs://BUCKET/NAME"
        yield Violation(field=path, rule=rule, message=str(fault), accepted=accepted)


def _leaves_the_job(directory: str) -> bool:
    """Whether a directory is outside the folder in which the job starts."""
    path = PurePosixPath(directory)
    return path.is_absolute() or directory.startswith("~") or ".." in path.parts


def _path_violation(directory: str) -> Violation:
    return Violation(
        field=FieldPath(Field.JOB_DIR),
        rule="job-dir",
        message=f"{directory!r} is outside the job's work folder; a job of a server cannot use "
        "paths of the server's machine",
        accepted="gs://BUCKET/PATH",
    )


def _directories(spec: JobSpec) -> Iterator[str]:
    yield from filter(None, (spec.job_dir, spec.base_output_dir))


def _packages(spec: JobSpec) -> Iterator[tuple[FieldPath, str]]:
    for role, program in _programs(spec):
        for uri in program.package_uris:
            yield FieldPath(Field.PACKAGE_URIS, role), uri


def _programs(spec: JobSpec) -> Iterator[tuple[Role, Program]]:
    for group in spec.groups:
        if group.program:
            yield group.role, group.program


def _list_uri_buckets(spec: JobSpec) -> Iterator[tuple[FieldPath, str]]:
    """Yield the buckets of directories and packages, with the fields that name them."""
    directories = ((FieldPath(Field.JOB_DIR), directory) for directory in _directories(spec))
    for path, uri in (*directories, *_packages(spec)):
        bucket = uri.removeprefix(SCHEME).partition("/")[0]
        if uri.startswith(SCHEME) and is_bucket_name(bucket):
            yield path, bucket


def _list_word_buckets(spec: JobSpec) -> Iterator[tuple[FieldPath, str]]:
    """List the buckets of words that are a mount path and nothing else, with their fields.

    A path within a longer text may have another meaning and is not checked.
    """
    for field, role, word in _words(spec):
        match = WHOLE.match(word)
        if match and is_bucket_name(match["bucket"]):
            yield FieldPath(field, role), match["bucket"]


def _words(spec: JobSpec) -> Iterator[tuple[Field, Role, str]]:
    """Yield the arguments and variables that name a mount path, with their fields."""
    for role, program in _programs(spec):
        values = (value for _, value in program.env)
        fields = ((Field.COMMAND, program.command), (Field.ARGS, program.args), (Field.ENV, values))
        for field, words in fields:
            yield from ((field, role, word) for word in words if GCS in word)


#: A mount path at the start of a word: after nothing, a blank, a quote, = : , ( or ;.
MOUNT: Final = re.compile(
    r"(?<![^\s\"'=:,(;])/gcs/(?P<bucket>[a-z0-9][a-z0-9._-]*)(?=$|[/\s\"',;)])"
)

#: The rest of a path in a text: to the first blank, unless that is escaped, or the end of a word.
_UNQUOTED: Final = re.compile(r"(?:\\.|[^\s\"',;)])*")
_UP: Final = re.compile(r"/\.\.(?=$|[/\s\"',;:)])")

#: A word that is a mount path, or a flag with one: ``/gcs/b/x``, ``--data=/gcs/b``.
WHOLE: Final = re.compile(r"(?:--?[\w.-]+=)?/gcs/(?P<bucket>[a-z0-9][a-z0-9._-]*)(?=$|/)")

#: Where buckets are mounted.
GCS: Final = "/gcs"

NOTE: Final = "In commands, args and env of processes, /gcs/{bucket} became {folder}."
NO_NOTE: Final = "/gcs/{bucket} in the job's commands, args or env does not exist: {reason}."


def with_real_paths(
    spec: JobSpec, buckets: Buckets, has_bucket: HasBucket, in_containers: Collection[Role] = ()
) -> tuple[JobSpec, tuple[str, ...]]:
    """Replace mount paths by folders of this machine; return the spec and notes for the log.

    Arguments of containers do not change, nor do paths of other projects' buckets.
    """
    mapped: dict[str, None] = {}
    groups = tuple(
        replace(group, program=_map_paths(group.program, buckets, has_bucket, mapped))
        if group.program and group.role not in in_containers
        else group
        for group in spec.groups
    )
    notes = [
        NOTE.format(bucket=bucket, folder=buckets.path_of(f"{SCHEME}{bucket}")) for bucket in mapped
    ]
    for bucket in _list_buckets(spec):
        if not has_bucket(bucket):
            reason = NO_BUCKET.format(bucket=bucket)
            notes.append(NO_NOTE.format(bucket=bucket, reason=reason))
    return replace(spec, groups=groups), tuple(notes)


def mounted(
    project: str, buckets: Buckets, store: "Store", made: Collection[Path] = ()
) -> tuple[tuple[str, str], ...]:
    """Return (folder, mount) of the project's buckets that have a folder; a job sees no others.

    ``made`` are folders that will exist when the job starts.
    """
    folders = {name: buckets.path_of(f"{SCHEME}{name}") for name in sorted(store.buckets(project))}
    return tuple(
        (str(path), f"{GCS}/{name}")
        for name, path in folders.items()
        if path in made or path.is_dir()
    )


def named(spec: JobSpec) -> set[str]:
    """Return the buckets of directories, packages and all mount paths."""
    return {bucket for _, bucket in _list_uri_buckets(spec)}.union(_list_buckets(spec))


def _list_buckets(spec: JobSpec) -> Sequence[str]:
    """Return the buckets of mount paths in arguments and variables, in order."""
    names = (match["bucket"] for _, _, word in _words(spec) for match in MOUNT.finditer(word))
    return [name for name in dict.fromkeys(names) if is_bucket_name(name)]


def _map_paths(
    program: Program, buckets: Buckets, has_bucket: HasBucket, mapped: dict[str, None]
) -> Program:
    def real(match: re.Match[str]) -> str:
        bucket = match["bucket"]
        is_own = is_bucket_name(bucket) and has_bucket(bucket)
        if not is_own or _leaves_bucket(match):
            return match[0]
        mapped[bucket] = None
        return str(buckets.path_of(f"{SCHEME}{bucket}"))

    return replace(
        program,
        command=tuple(MOUNT.sub(real, word) for word in program.command),
        args=tuple(MOUNT.sub(real, word) for word in program.args),
        env=tuple((name, MOUNT.sub(real, value)) for name, value in program.env),
    )


def _leaves_bucket(match: re.Match[str]) -> bool:
    """Whether a path leaves its bucket with ``..``."""
    text, end = match.string, match.end()
    before = text[: match.start()][-1:]
    whole = WHOLE.match(text)
    if before and before in "\"'":
        rest = text[end:].partition(before)[0]
    elif whole and whole.end() == end:
        rest = text[end:]
    else:
        rest = _UNQUOTED.match(text, end)[0]  # type: ignore[index]  # the pattern also matches an empty text
    return _UP.search(rest) is not None
