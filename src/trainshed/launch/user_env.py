"""Sets the user's variables, last and in their order (docs/sources/vertex.md 8, 10).

``$(NAME)`` in a value is replaced by an earlier variable, the service's or the user's.  A reference
to a name without a value stays unchanged, and ``$$(NAME)`` writes ``$(NAME)`` itself.
"""

import re
from collections.abc import Iterator
from typing import Final

from trainshed.launch.context import Variables
from trainshed.launch.variables import RESERVED_PREFIX
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import Program
from trainshed.model.roles import Role

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_IDENTIFIER: Final = re.compile(_NAME)
_REFERENCE: Final = re.compile(rf"(?P<escape>\$?)(?P<reference>\$\((?P<name>{_NAME})\))")


def merge_variables(service: Variables, program: Program | None) -> Variables:
    """Add a program's variables to the service's; the user's value wins, except for AIP_* names."""
    env = dict(service)
    for name, value in program.env if program else ():
        if not is_kept_by_service(name, service):
            env[name] = expand_references(value, env)
    return env


def expand_references(value: str, env: Variables) -> str:
    """Replace the references in a value once: inserted text is not expanded again."""

    def replacement(match: re.Match[str]) -> str:
        if match["escape"]:
            return match["reference"]
        return env.get(match["name"], match["reference"])

    return _REFERENCE.sub(replacement, value)


def is_kept_by_service(name: str, service: Variables) -> bool:
    """Whether the service's value wins: the prefix is reserved and the service has a value."""
    return name.startswith(RESERVED_PREFIX) and name in service


def violations(role: Role, program: Program) -> Iterator[Violation]:
    """Find the variables whose name is not a C identifier (docs/sources/vertex.md 8)."""
    for name, _ in program.env:
        if not _IDENTIFIER.fullmatch(name):
            yield Violation(
                field=FieldPath(Field.ENV, role),
                rule="env-name",
                message=f"{name!r} cannot be the name of an environment variable.",
                accepted="letters, digits and underscores, not beginning with a digit",
            )
