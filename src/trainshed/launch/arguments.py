"""The command line of a replica.

The user's words come first and never change; the words of the service follow them, as gcloud's own
local run appends ``--job-dir`` (docs/sources/gcloud.md 9.1) and Vertex AI appends the arguments of
a trial (docs/sources/vertex.md 10).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trainshed.launch import reduction_env
from trainshed.launch.context import Context, program_of
from trainshed.launch.directories import trial_folder, under
from trainshed.launch.names import role_word
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.python_word import PYTHON_WORD
from trainshed.model.roles import Dialect, Role

#: The argument with the job directory; Vertex has AIP_* instead.
TAKES_JOB_DIR: Final = frozenset({Dialect.ML_V1})

#: The dialects' names of the field with a container's command.
COMMAND_FIELD: Final[Mapping[Dialect, str]] = {
    Dialect.ML_V1: "containerCommand",
    Dialect.AIPLATFORM_V1: "containerSpec.command",
}

#: The rule that a container without a command breaks, if its image does not run.
NO_COMMAND: Final = "no-command"

EntryPoints = Mapping[Role, tuple[str, ...]]


def argv_of(context: Context, group: ReplicaGroup, entrypoints: EntryPoints) -> tuple[str, ...]:
    """Return the command line of each replica of a group that has no ``violations``."""
    program = program_of(context.spec, group)
    if group.role is Role.REDUCER:  # runs Trainshed's program, not its container's
        return reduction_env.argv_of(group.program)
    if program is None:
        raise AssertionError(f"the {group.role.value} group has no program")
    start = START[program.kind](program, entrypoints.get(group.role, ()))
    return (*start, *program.args, *hyperparameters(context), *job_dir(context))


def hyperparameters(context: Context) -> tuple[str, ...]:
    """Write a trial's parameters as ``--NAME VALUE`` pairs, in the trial's order."""
    if context.trial is None:
        return ()
    pairs = ((f"--{name}", value) for name, value in context.trial.parameters)
    return tuple(argument for pair in pairs for argument in pair)


def job_dir(context: Context) -> tuple[str, ...]:
    """Write ``--job-dir`` for the dialect that has it; each trial has a folder of its own."""
    if context.spec.job_dir is None or context.spec.dialect not in TAKES_JOB_DIR:
        return ()
    mapped = context.site.map_uri(context.spec.job_dir)
    folder = trial_folder(context)
    return ("--job-dir", under(mapped, *folder) if folder else mapped)


def violations(spec: JobSpec, group: ReplicaGroup, entrypoints: EntryPoints) -> Iterator[Violation]:
    """Yield the reasons why a group cannot have a command line."""
    program = program_of(spec, group)
    if group.role is Role.REDUCER:
        return
    if program is None:
        yield _no_program(group.role)
    elif program.kind is ProgramKind.PYTHON_PACKAGE and not program.module:
        yield _no_module(group.role)
    elif program.kind is ProgramKind.CONTAINER and not _has_start(program, group, entrypoints):
        yield _no_command(group.role, spec.dialect)


def _has_start(program: Program, group: ReplicaGroup, entrypoints: EntryPoints) -> bool:
    return bool(program.command or entrypoints.get(group.role))


def _module(program: Program, _entry_point: tuple[str, ...]) -> tuple[str, ...]:
    return (PYTHON_WORD, "-m", program.module or "")


def _container(program: Program, entry_point: tuple[str, ...]) -> tuple[str, ...]:
    return program.command or entry_point


#: The function that returns the beginning of a command line, by kind of program.
START: Final[Mapping[ProgramKind, Callable[[Program, tuple[str, ...]], tuple[str, ...]]]] = {
    ProgramKind.PYTHON_PACKAGE: _module,
    ProgramKind.CONTAINER: _container,
}


def _no_program(role: Role) -> Violation:
    return Violation(
        field=FieldPath(Field.GROUP, role),
        rule="no-program",
        message=f"The {role_word(role)} group has neither a container nor a Python package to run.",
        accepted="a container or a Python package",
    )


def _no_module(role: Role) -> Violation:
    return Violation(
        field=FieldPath(Field.MODULE, role),
        rule="no-module",
        message=f"The Python package of the {role_word(role)} group names no module to run.",
        accepted="a module, such as trainer.task",
    )


def _no_command(role: Role, dialect: Dialect) -> Violation:
    return Violation(
        field=FieldPath(Field.COMMAND, role),
        rule=NO_COMMAND,
        message=f"The container of the {role_word(role)} group gives no command, and this machine "
        "cannot know the entry point of its image.",
        accepted=COMMAND_FIELD[dialect],
    )
