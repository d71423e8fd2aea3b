"""The launch plan, as ``--dry-run`` prints it: a table for people, all of it as JSON."""

import shlex
from typing import Any

from trainshed.cli.terminal import out, table
from trainshed.model import trainer_contract
from trainshed.model.codec import encode
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan


def print_plan(plan: LaunchPlan) -> None:
    """Print who would be started with what."""
    rows = [(r.task_name, r.gpu_count, _told(r), shlex.join(r.argv)) for r in plan.replicas]
    out(table(("REPLICA", "GPUS", "TOLD", "COMMAND"), rows))
    out(f"\nworking folder: {plan.cwd}")
    out(f"interpreter:    {plan.environment.python}")
    for package in plan.environment.packages:
        out(f"installs:       {package}")
    for requirement in plan.environment.requirements:
        out(f"installs:       {requirement}")
    for note in plan.notes:
        out(f"note:           {note}")


def plan_json(plan: LaunchPlan) -> dict[str, Any]:
    """The whole plan, environments included."""
    found: dict[str, Any] = encode(plan)
    return found


def _told(replica: ReplicaPlan) -> str:
    """What a replica learns of its cluster; ``explain-env`` and JSON have every variable."""
    found = [name for name in ("TF_CONFIG", "CLUSTER_SPEC") if name in replica.env]
    if "RANK" in replica.env:
        found.append(f"RANK {replica.env['RANK']} of {replica.env['WORLD_SIZE']}")
    if trainer_contract.REDUCERS in replica.env:
        found.append("the reducers")
    return ", ".join(found)
