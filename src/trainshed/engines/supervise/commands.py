"""Composes the command and the environment of a replica.

The preparer calls this module for a replica on the server's machine.  For a replica on a node of a
cluster, the launcher first composes the command from the plan.  Then the warden adds the variables
and the packages of its node.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union

from trainshed.engines.supervise.record.spec import ReplicaSpec
from trainshed.model.python_word import PYTHON_WORD
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.model.launch_plan import ReplicaPlan


class ReplicaCommand(NamedTuple):
    """The arguments that start a program, and the program's complete environment."""

    argv: tuple[str, ...]
    env: dict[str, str]


def compose_command(
    replica: "Union[ReplicaPlan, ReplicaSpec]",
    *,
    python: str = PYTHON_WORD,
    packages: Sequence[str] = (),
    base: Mapping[str, str] = {},
    devices: Mapping[str, str] = {},
) -> ReplicaCommand:
    """Compose the complete command and environment of a replica.

    ``python`` is the interpreter of the job, and ``packages`` are the folders with its installed
    packages.  ``base`` are variables of the machine; variables of the replica override them.
    ``devices`` are variables that name the replica's GPUs; they override those of the replica.
    """
    env = {**base, "PYTHONUNBUFFERED": "1", **replica.env, **devices}
    # a reducer is a program of Trainshed, which the job's packages must not change
    entries = () if replica.role is Role.REDUCER else packages
    if python_path := os.pathsep.join(filter(None, (*entries, env.get("PYTHONPATH", "")))):
        env["PYTHONPATH"] = python_path
    runs_python = replica.argv[:1] == (PYTHON_WORD,)
    return ReplicaCommand((python, *replica.argv[1:]) if runs_python else replica.argv, env)
