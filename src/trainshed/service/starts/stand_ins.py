"""Finds what each group of a job runs in, the violations, and the notes for its log."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from trainshed.catalog.software import prebuilt_image
from trainshed.launch import arguments
from trainshed.launch.context import in_role_order, program_of
from trainshed.launch.names import role_word
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.service.starts.images import CONTAINER, DEFAULT, IMAGE_FORM, Images, StandIn

UNMAPPED: Final = (
    "the server cannot run the image {uri}: there is no container runtime ({reason}), and no "
    "[[image]] table of the server's configuration file maps it to a local environment"
)
WAYS_OUT: Final = "one of Google's prebuilt training images; or {lines}; or {container}"
#: The same for a prebuilt image, which only engines refuse whose interpreters are unknown.
PREBUILT: Final = (
    "the server knows no interpreter on the engine's nodes that could replace Google's prebuilt "
    "image {uri}, and there is no container runtime ({reason})"
)
WAYS_OUT_PREBUILT: Final = (
    "in the [[engine]] table of the server's configuration file: [engine.environments] / default = "
    "an interpreter of the nodes; or, for the interpreters that it has, one run of: trainshed "
    "doctor --engine NAME; or {lines}; or {container}"
)
#: The TOML that an administrator adds, in one line.
LINES: Final = (
    "in the server's configuration file, before other [[image]] tables: [[image]] / image = {uri} "
    '/ environment = "{environment}"'
)
ENTRY_POINT: Final = (
    ' / entrypoint = ["python", "-m", "trainer.task"], or the command that starts it'
)


def stand_ins(spec: JobSpec, images: Images) -> Mapping[Role, StandIn | None]:
    """Return the stand-in of each role except reducers; None for an image without one.

    Reducers run Trainshed's own program instead of their image.
    """
    groups = [group for group in in_role_order(spec).groups if group.role is not Role.REDUCER]
    programs = ((group.role, program_of(spec, group)) for group in groups)
    return {role: images.stand_in(program) for role, program in programs if program}


def in_containers(by_role: Mapping[Role, StandIn | None]) -> frozenset[Role]:
    """Return the roles that run in their own images."""
    return frozenset(role for role, s in by_role.items() if s and s.is_container)


def entry_points(by_role: Mapping[Role, StandIn | None]) -> dict[Role, tuple[str, ...]]:
    """Return the commands of roles whose containers have no command."""
    return {role: s.entrypoint for role, s in by_role.items() if s and s.entrypoint}


def images_by_role(by_role: Mapping[Role, StandIn | None]) -> dict[Role, str]:
    """Return the images of roles that run in containers."""
    return {role: s.image for role, s in by_role.items() if s and s.image}


def explain_lack(program: Program, images: Images) -> str:
    """Return why an engine has no stand-in for a program."""
    if program.image_uri:
        return (
            f"the engine cannot run the image {program.image_uri}: no environment replaces it, "
            f"and {images.no_containers}"
        )
    version = f"runtime version {program.runtime_version}" if program.runtime_version else ""
    return f"the engine runs programs in images alone, and the job names {version or 'no image'}"


def missing_starts(spec: JobSpec, images: Images) -> Iterator[Violation]:
    """Yield violations of images that cannot be run, and of containers without a command."""
    by_role = stand_ins(spec, images)
    starts = entry_points(by_role)
    unmapped: set[str] = set()
    for group in spec.groups:
        if group.role not in by_role:
            continue  # an admission rule reports a group without a program
        program = program_of(spec, group)
        uri = (program and program.image_uri) or ""
        stand_in = by_role[group.role]
        if stand_in is None:
            if group.program is program and not _is_inherited(spec, group.role, uri, unmapped):
                yield _unmapped_image(group.role, program, images)
            unmapped.add(uri)
        elif stand_in.is_container:
            if group.program is program and not IMAGE_FORM.fullmatch(stand_in.image):
                yield _misnamed_image(group.role, stand_in.image)
            elif images.needs_command:
                yield from _missing_entry_points(spec, group, stand_in, images)
        else:
            lines = _lines(uri, stand_in.environment, has_start=False)
            for violation in _missing_commands(spec, group, starts):
                yield replace(violation, accepted=f"{violation.accepted}, or {lines}")


def _missing_entry_points(
    spec: JobSpec, group: ReplicaGroup, stand_in: StandIn, images: Images
) -> Iterator[Violation]:
    """Yield the violation of a container whose entry point the engine cannot know."""
    starts = {group.role: stand_in.entrypoint}
    lines = _lines(stand_in.image, CONTAINER, has_start=False)
    for violation in _missing_commands(spec, group, starts):
        message = f"The container of the {role_word(group.role)} group gives no command, and"
        yield replace(
            violation,
            message=f"{message} {images.needs_command}.",
            accepted=f"{violation.accepted}, or {lines}",
        )


def _missing_commands(
    spec: JobSpec, group: ReplicaGroup, starts: arguments.EntryPoints
) -> Iterator[Violation]:
    violations = arguments.violations(spec, group, starts)
    return (violation for violation in violations if violation.rule == arguments.NO_COMMAND)


def _lines(uri: str, environment: str, *, has_start: bool) -> str:
    """Return the settings that map an image; the first table that fits an image applies."""
    lines = LINES.format(uri=json.dumps(uri), environment=environment)
    return lines if has_start else lines + ENTRY_POINT


def _is_inherited(spec: JobSpec, role: Role, uri: str, reported: set[str]) -> bool:
    """Whether the image is the primary's, which ml v1 gives to groups that name no image."""
    return role is not Role.PRIMARY and bool(spec.job_id) and uri in reported


def _unmapped_image(role: Role, program: Program | None, images: Images) -> Violation:
    uri = (program and program.image_uri) or ""
    if program and not uri:
        return _imageless(role, program, images)
    has_start = bool(program and (program.command or program.kind is ProgramKind.PYTHON_PACKAGE))
    message, ways = (PREBUILT, WAYS_OUT_PREBUILT) if prebuilt_image(uri) else (UNMAPPED, WAYS_OUT)
    return Violation(
        field=FieldPath(Field.IMAGE_URI, role),
        rule="image-unmapped",
        message=message.format(uri=uri, reason=images.no_containers),
        accepted=ways.format(
            lines=_lines(uri, DEFAULT, has_start=has_start), container=images.way_to_containers
        ),
    )


def _imageless(role: Role, program: Program, images: Images) -> Violation:
    """Return the violation of a program without an image, on engines that run images alone."""
    version = program.runtime_version
    row = (
        f"[[image]] / runtime_version = {json.dumps(version)} / environment = "
        f'"{CONTAINER}" / run = an image with that version'
    )
    settings = f"in the server's configuration file: {row}; or " if version else ""
    return Violation(
        field=FieldPath(Field.RUNTIME_VERSION if version else Field.IMAGE_URI, role),
        rule="image-unmapped",
        message=explain_lack(program, images),
        accepted=f"{settings}the name of an image in the job",
    )


def _misnamed_image(role: Role, uri: str) -> Violation:
    return Violation(
        field=FieldPath(Field.IMAGE_URI, role),
        rule="image-name",
        message=f"{uri!r} is not a valid name of an image.",
        accepted="HOST/PATH:TAG or HOST/PATH@DIGEST",
    )


def notes_of(spec: JobSpec, images: Images) -> tuple[str, ...]:
    """Return the notes on images for the job's log, the primary's first."""
    by_role = stand_ins(spec, images)
    notes = [stand_in.note for stand_in in by_role.values() if stand_in and stand_in.note]
    primary = by_role.get(Role.PRIMARY)
    has_packages = any(g.program and g.program.package_uris for g in spec.groups)
    for role, stand_in in by_role.items():
        if role in in_containers(by_role) or Role.PRIMARY in in_containers(by_role):
            continue  # each container installs its own
        if primary and stand_in and has_packages and stand_in.python != primary.python:
            notes.append(
                f"The packages are installed for environment {primary.environment}; the "
                f"{role_word(role)} replicas run in {stand_in.environment}."
            )
    return tuple(dict.fromkeys(notes))
