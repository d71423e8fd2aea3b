"""Builds the command of a replica in its own image: command and args as Docker defines them.

A container's command replaces the image's ENTRYPOINT and its args replace CMD; if the job has
neither, the image's own are kept (docs/sources/vertex.md 7.1 and 8).  The service adds its words to
args.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trainshed.launch.arguments import hyperparameters, job_dir
from trainshed.launch.context import Context, program_of
from trainshed.model.job import Program, ProgramKind, ReplicaGroup
from trainshed.model.launch_plan import ContainerPlan

Words = tuple[str, ...]


def container_of(context: Context, group: ReplicaGroup, packages: Sequence[str]) -> ContainerPlan:
    """Return the image, the command and the args of the containers of a group that has an image.

    ``packages`` are the files that a Python package's group installs before it starts, as the
    container sees them.
    """
    program = program_of(context.spec, group)
    image = context.site.images.get(group.role) or (program and program.image_uri)
    if program is None or not image:
        raise AssertionError(f"the {group.role.value} group has no image to run in")
    start = COMMAND[program.kind](program, packages) or context.site.entrypoints.get(group.role)
    args = (*program.args, *hyperparameters(context), *job_dir(context))
    return ContainerPlan(
        image=image,
        command=start or None,
        args=args or None,
    )


def words_of(plan: ContainerPlan) -> Words:
    """Return the words that are known without the image, for display."""
    return (*(plan.command or ()), *(plan.args or ()))


def _given_command(program: Program, _packages: Sequence[str]) -> Words:
    return program.command


def _module(program: Program, packages: Sequence[str]) -> Words:
    """Start a module as Google's executor images do: after pip has installed the packages."""
    module = program.module or ""
    if not packages:
        return ("python3", "-m", module)
    install = f"python3 -m pip install {USER_FLAG} {shlex.join((*PIP_FLAGS, *packages))}"
    run = shlex.join(("exec", "python3", "-m", module))
    return ("sh", "-c", f'{PRIVATE_BASE} && {install} && {WRITABLE} && {run} "$@"', module)


PIP_FLAGS: Final = ("--quiet", "--disable-pip-version-check", "--no-warn-script-location")

#: An image's own folders may be read-only, but in a virtual environment pip refuses ``--user``.
USER_FLAG: Final = (
    """$(python3 -c 'import site; print("--user" if site.ENABLE_USER_SITE else "")')"""
)

#: Replicas share the home of their job, and two installations into one folder break each other.
PRIVATE_BASE: Final = 'export PYTHONUSERBASE="${TMPDIR:-/tmp}/trainshed-packages"'

#: Changes to the home folder if the image's folder is read-only: programs write to their folder.
WRITABLE: Final = "{ [ -w . ] || cd || :; }"

COMMAND: Final[Mapping[ProgramKind, Callable[[Program, Sequence[str]], Words]]] = {
    ProgramKind.CONTAINER: _given_command,
    ProgramKind.PYTHON_PACKAGE: _module,
}
