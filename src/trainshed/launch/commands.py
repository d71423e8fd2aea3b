"""The commands of replicas, and what must be on their machine before they start."""

from dataclasses import replace
from pathlib import Path

from trainshed.model.launch_plan import PYTHON_WORD, Environment, LaunchPlan
from trainshed.model.roles import Role

#: The folders below the base output directory that AIP_* variables name.
AIP_FOLDERS = ("model", "checkpoints", "logs")


def installed_here(plan: LaunchPlan) -> Environment:
    """What is installed on the machine: nothing where each container installs its own."""
    if all(replica.container or replica.role is Role.REDUCER for replica in plan.replicas):
        return replace(plan.environment, packages=())
    return plan.environment


def in_environment(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Images call their interpreter python3 or by its path; here it is the job's environment."""
    first, *rest = argv
    name = Path(first).name
    is_python = name in {"python", "python3"} or name.startswith("python3.")
    return (PYTHON_WORD if is_python else first, *rest)
