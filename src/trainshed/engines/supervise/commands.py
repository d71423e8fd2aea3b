"""How the command and the variables of a replica meet what was installed for it."""

import os
from collections.abc import Sequence

from trainshed.model.launch_plan import PYTHON_WORD
from trainshed.model.roles import Role


def with_python(argv: Sequence[str], python: str) -> tuple[str, ...]:
    """A command with the interpreter that it runs in."""
    first, *rest = argv
    return (python if first == PYTHON_WORD else first, *rest)


def with_packages(env: dict[str, str], role: Role, entries: Sequence[str]) -> dict[str, str]:
    """Put what was installed for the job in front of the import path."""
    # a reducer is our own program, which the job's packages must not change
    paths = [*(() if role is Role.REDUCER else entries), env.get("PYTHONPATH", "")]
    if python_path := os.pathsep.join(filter(None, paths)):
        env["PYTHONPATH"] = python_path
    return env
