"""Reports how a local run ended, as a table or as JSON."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainshed.cli.terminal import out, table
from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role
from trainshed.workbench.results import headline

if TYPE_CHECKING:
    from trainshed.planning.achieved import Achieved


def print_ending(
    outcome: Outcome,
    metrics: Mapping[str, float],
    output: Path | None,
    reduction: "Achieved | None" = None,
) -> None:
    """Print a line for each replica, with the primary's metric if it reported one.

    ``reduction`` is the rate of the job's reducers; None if the job reported none.
    """
    metric = headline(metrics)
    headers = ["ROLE", "REPLICA", "EXIT", "SECONDS", "STATE"]
    rows = [list(_row(replica)) for replica in outcome.replicas]
    if metric:
        headers.append(metric[0].upper().replace("_", " "))
        for row, replica in zip(rows, outcome.replicas, strict=True):
            row.append(f"{metric[1]:.4g}" if replica.role is Role.PRIMARY else "")
    if rows:
        out("")
        out(table(headers, rows))
    if outcome.message:
        out(outcome.message)
    if reduction is not None:
        out(reduction.sentence)
    if output is not None and _has_files(output):
        out(f"output: {output}")


def _has_files(folder: Path) -> bool:
    """Return whether a folder has files; the folder itself is made before the job starts."""
    return folder.is_dir() and any(folder.iterdir())


def ending_json(
    plan: LaunchPlan,
    outcome: Outcome,
    metrics: Mapping[str, float],
    output: Path | None,
    reduction: "Achieved | None" = None,
) -> dict[str, Any]:
    """Return the outcome as one JSON object."""
    return {
        "job_id": plan.job_id,
        "exit_code": outcome.exit_code,
        "message": outcome.message,
        "replicas": [
            {
                "role": replica.role.value,
                "index": replica.index,
                "task_name": replica.task_name,
                "exit_code": replica.exit_code,
                "signal": replica.signal,
                "seconds": round(replica.seconds, 3),
                "state": state_of(replica),
            }
            for replica in outcome.replicas
        ],
        "metrics": dict(metrics),
        "output": str(output) if output else None,
        "reduction": reduction.numbers if reduction else None,
        "notes": [*plan.notes, *plan.warnings],
    }


def state_of(replica: ReplicaExit) -> str:
    """Return ``succeeded``, ``failed``, or ``stopped`` if Trainshed ended it with its job."""
    if replica.stopped_by_us:
        return "stopped"
    return "failed" if replica.status else "succeeded"


def _row(replica: ReplicaExit) -> tuple[str, str, str, str, str]:
    role = replica.role.value.replace("_", " ")
    seconds = f"{replica.seconds:.1f}"
    return role, replica.task_name, _format_exit(replica), seconds, state_of(replica)


def _format_exit(replica: ReplicaExit) -> str:
    if replica.signal is None:
        return str(replica.exit_code)
    try:
        return signal.Signals(replica.signal).name
    except ValueError:
        return f"signal {replica.signal}"
