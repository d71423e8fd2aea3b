"""Rules about programs: images, packages, runtime and Python versions, variables."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from trainshed.admission.context import RuleContext, Scope, broken
from trainshed.admission.near_names import near_version
from trainshed.catalog.rows import rows
from trainshed.catalog.software import (
    BLOCKED_FROM,
    BLOCKED_UP_TO,
    RuntimeVersion,
    runtimes,
    version,
)
from trainshed.model.faults import Field, Violation
from trainshed.model.job import Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.model.spelling import did_you_mean
from trainshed.model.texts import join_or

#: The last day of the release notes rn2020.  They name no runtime version after 2.1.
NOTES_END = date(2020, 8, 14)


def programs_are_whole(context: RuleContext) -> Iterator[Violation]:
    """Every group has one program that can be run."""
    if context.scope is not Scope.ALL:
        return
    if context.submitted_spec.dialect is Dialect.ML_V1:
        primary = context.spec.group(Role.PRIMARY)
        yield from _check_ml(context, primary.program if primary else None)
        return
    for group in context.spec.groups:
        yield from _check_vertex(group)


def _check_vertex(group: ReplicaGroup) -> Iterator[Violation]:
    program = group.program
    if program is None:
        message = "a worker pool has exactly one of containerSpec and pythonPackageSpec"
        accepted = "containerSpec with an imageUri, or pythonPackageSpec"
        yield broken(group, Field.GROUP, "container-xor-python", message, accepted)
        return
    if not program.image_uri:
        yield broken(
            group, Field.IMAGE_URI, "image-missing", "the image is missing", "an image URI"
        )
    if program.kind is ProgramKind.PYTHON_PACKAGE:
        yield from _check_python_package(group, program)


def modules_are_named(context: RuleContext) -> Iterator[Violation]:
    """A module has the form of ``trainer.task``, also in a local run."""
    groups = context.spec.groups
    if context.submitted_spec.dialect is Dialect.ML_V1:
        groups = tuple(group for group in groups if group.role is Role.PRIMARY)
    for group in groups:
        if group.program and group.program.module:
            yield from _check_module(group, group.program.module)


def image_uris_have_no_scheme(context: RuleContext) -> Iterator[Violation]:
    """An image URI must have no scheme, such as https://."""
    for group in context.spec.groups if context.scope is Scope.ALL else ():
        uri = (group.program.image_uri if group.program else None) or ""
        if "://" in uri:
            hint = did_you_mean(_without_scheme(uri))
            message = f"{uri!r} is not an image URI: an image URI has no scheme{hint}"
            yield broken(group, Field.IMAGE_URI, "image-missing", message, "HOST/PATH:TAG")


def _without_scheme(uri: str) -> str | None:
    bare = uri.partition("://")[2]
    return bare if bare and len(bare.split()) == 1 else None


def _check_python_package(group: ReplicaGroup, program: Program) -> Iterator[Violation]:
    most = _packages_max()
    if not program.module:
        message = "a Python package needs the module to run"
        yield broken(group, Field.MODULE, "python-module", message, "trainer.task, for example")
    if not program.package_uris:
        message = "a Python package needs at least one URI"
        yield broken(group, Field.PACKAGE_URIS, "package-uris", message, f"1 to {most} gs:// URIs")
    elif len(program.package_uris) > most:
        message = f"{len(program.package_uris)} packages are too many"
        yield broken(group, Field.PACKAGE_URIS, "package-uris", message, f"at most {most}")
    yield from _check_package_uris(group, program)


#: A name that ``python -m`` accepts: names separated by dots; a package may have a hyphen.
_MODULE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")


def _check_module(group: ReplicaGroup, name: str) -> Iterator[Violation]:
    """A module has the form ``trainer.task``; it is not a file or a command line."""
    if _MODULE.fullmatch(name) and not name.startswith("-") and not name.endswith(".py"):
        return
    meant = name.rsplit(maxsplit=1)[-1].partition(":")[0] if name.split() else ""
    meant = meant.removesuffix(".py").strip("./").replace("/", ".")
    near = meant if _MODULE.fullmatch(meant) and not meant.startswith("-") else None
    message = f"{name!r} is not a valid module name{did_you_mean(near)}"
    yield broken(
        group, Field.MODULE, "python-module", message, "a dotted name, such as trainer.task"
    )


_OTHER_STORE: Final = re.compile(r"(?!gs://[^/])[A-Za-z][\w+.-]*:/")


def _check_package_uris(group: ReplicaGroup, program: Program) -> Iterator[Violation]:
    """A package is a file in a bucket or on this machine, not a folder."""
    accepted = "the gs:// URI of a .tar.gz or .whl file"
    for uri in program.package_uris:
        if _OTHER_STORE.match(uri):
            message = f"{uri} is not in a bucket: its URI does not begin with gs://BUCKET/"
        elif uri.startswith("gs://") and uri.endswith("/"):
            message = f"{uri} is a folder, not a package: `python setup.py sdist` makes its file"
        elif uri.endswith(".py"):
            message = f"{uri} is a program, not a package: `python setup.py sdist` makes its file"
        else:
            continue
        yield broken(group, Field.PACKAGE_URIS, "package-uris", message, accepted)


def _check_ml(context: RuleContext, program: Program | None) -> Iterator[Violation]:
    image = program.image_uri if program else None
    runtime = program.runtime_version if program else None
    if bool(image) == bool(runtime):
        both = "a job has a runtimeVersion or a masterConfig.imageUri, not both"
        message = both if image else "neither a runtimeVersion nor a masterConfig.imageUri is given"
        accepted = "exactly one of runtimeVersion and masterConfig.imageUri"
        yield broken(Role.PRIMARY, Field.RUNTIME_VERSION, "runtime-xor-image", message, accepted)
    if program and runtime:
        yield from _check_runtime(context, program, runtime)
    primary = context.spec.group(Role.PRIMARY)
    if program and primary:
        yield from _check_package_uris(primary, program)
    if program and len(program.package_uris) > _packages_max():
        message = f"{len(program.package_uris)} packages are too many"
        yield broken(
            Role.PRIMARY, Field.PACKAGE_URIS, "package-uris", message, f"at most {_packages_max()}"
        )


def _check_runtime(context: RuleContext, program: Program, name: str) -> Iterator[Violation]:
    runtime = runtimes().get(name)
    if runtime is None:
        message = (
            f"there is no runtime version {name}{did_you_mean(near_version(name, runtimes()))}"
        )
        accepted = join_or(runtimes(), limit=30)
        yield broken(Role.PRIMARY, Field.RUNTIME_VERSION, "unknown-runtime", message, accepted)
        return
    edition = context.catalog.edition
    if not _is_released(runtime, context):
        message = f"runtime version {name} is younger than edition {edition.id}"
        yield broken(
            Role.PRIMARY, Field.RUNTIME_VERSION, "not-in-that-version", message, "an older version"
        )
    elif context.today >= BLOCKED_FROM and version(name) <= BLOCKED_UP_TO:
        message = f"runtime version {name} is blocked for training since {BLOCKED_FROM}"
        yield broken(
            Role.PRIMARY, Field.RUNTIME_VERSION, "runtime-retired", message, "1.10 or later"
        )
    python = program.python_version
    if python and python not in runtime.python:
        has = f"has Python {join_or(runtime.python).replace(' or ', ' and ')}"
        message = f"runtime version {name} {has}, not {python}"
        yield broken(
            Role.PRIMARY,
            Field.PYTHON_VERSION,
            "python-version",
            message,
            join_or(runtime.python),
        )


def _is_released(runtime: RuntimeVersion, context: RuleContext) -> bool:
    """Whether the edition has a runtime version.

    A version without a release date counts as released before every later version that has one.
    An edition after the release notes has every version.
    """
    edition = context.catalog.edition.date
    if runtime.released:
        return runtime.released <= edition
    later = (r for r in runtimes().values() if version(r.version) > version(runtime.version))
    return edition > NOTES_END or any(r.released and r.released <= edition for r in later)


def _packages_max() -> int:
    row = next(r for r in rows("job_limits", "limit") if r["field"] == "packageUris")
    most: int = row["max"]
    return most


#: The most variables of one containerSpec or pythonPackageSpec (docs/sources/vertex.md 8).
ENV_MAX: Final = 100

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def env_is_well_formed(context: RuleContext) -> Iterator[Violation]:
    """Variables have C identifiers as names, at most 100 in a pool (docs/sources/vertex.md 8)."""
    for group in context.submitted_spec.groups:
        if group.program:
            yield from _check_env(group, group.program)


def _check_env(group: ReplicaGroup, program: Program) -> Iterator[Violation]:
    if len(program.env) > ENV_MAX:
        message = f"{len(program.env)} environment variables are too many"
        yield broken(group, Field.ENV, "env-count", message, f"at most {ENV_MAX}")
    for name, _ in program.env:
        if not _IDENTIFIER.fullmatch(name):
            message = f"{name!r} cannot be the name of an environment variable"
            accepted = "letters, digits and underscores, not beginning with a digit"
            yield broken(group, Field.ENV, "env-name", message, accepted)
