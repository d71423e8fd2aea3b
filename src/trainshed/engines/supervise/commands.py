"""Turns a replica into a command with its environment.

A supervisor's preparer does it for replicas of its own machine, a launcher and a warden each do
their part for one on a node: the launcher has the plan, the warden the node and the packages.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Union

from trainshed.engines.supervise.record.spec import ReplicaSpec
from trainshed.model.launch_plan import PYTHON_WORD, ReplicaPlan
from trainshed.model.roles import Role


class Command(NamedTuple):
    """The words that start a program, and its whole environment."""

    argv: tuple[str, ...]
    env: dict[str, str]


def compose_command(
    replica: Union[ReplicaPlan, ReplicaSpec],
    *,
    python: str = PYTHON_WORD,
    packages: Sequence[str] = (),
    base: Mapping[str, str] = {},
    devices: Mapping[str, str] = {},
) -> Command:
    """Complete the command and the variables of a replica.

    ``python`` is the interpreter of the job and ``packages`` are folders of what was installed for
    it, ``base`` are variables of the machine that the replica's own override, and ``devices`` those
    that name its GPUs, which override the replica's own.
    """
    env = {**base, "PYTHONUNBUFFERED": "1", **replica.env, **devices}
    # a reducer is our own program, which the job's packages must not change
    entries = () if replica.role is Role.REDUCER else packages
    if python_path := os.pathsep.join(filter(None, (*entries, env.get("PYTHONPATH", "")))):
        env["PYTHONPATH"] = python_path
    runs_python = replica.argv[:1] == (PYTHON_WORD,)
    return Command((python, *replica.argv[1:]) if runs_python else replica.argv, env)
