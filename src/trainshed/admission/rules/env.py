"""Rules about the environment variables of a job: what they may be called, and how many.

They are asked whatever the scope is: a variable is no matter of images or packages.
"""

import re
from collections.abc import Iterator
from typing import Final

from trainshed.admission.context import RuleContext, broken
from trainshed.model.faults import Field, Violation
from trainshed.model.job import Program, ReplicaGroup

#: Of one containerSpec or pythonPackageSpec (contracts/vertex-sdk.md 8).
ENV_MAX: Final = 100

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def env_is_well_formed(context: RuleContext) -> Iterator[Violation]:
    """C identifiers, at most 100 of them a pool (contracts/vertex-sdk.md 8)."""
    for group in context.asked.groups:
        if group.program:
            yield from _env(group, group.program)


def _env(group: ReplicaGroup, program: Program) -> Iterator[Violation]:
    if len(program.env) > ENV_MAX:
        message = f"{len(program.env)} environment variables are too many"
        yield broken(group, Field.ENV, "env-count", message, f"at most {ENV_MAX}")
    for name, _ in program.env:
        if not _IDENTIFIER.fullmatch(name):
            message = f"{name!r} cannot be the name of an environment variable"
            accepted = "letters, digits and underscores, not beginning with a digit"
            yield broken(group, Field.ENV, "env-name", message, accepted)
