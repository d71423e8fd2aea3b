"""Where a job's workers say what their exchanges through reducers came to, and what they said."""

from contextlib import suppress
from typing import Final

from trainshed.engines.local.attempts.folder import AttemptFolder, read_json
from trainshed.model import trainer_contract
from trainshed.model.attempt import Observation, Phase
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.reduction_report import ReductionReport, report_of
from trainshed.model.roles import Role

#: Nothing writes a report any more.
_OVER: Final = frozenset({Phase.ENDED, Phase.LOST})
#: Those that exchange gradients; the one of rank 0 writes the report.
_EXCHANGING: Final = frozenset({Role.PRIMARY, Role.WORKER})


def report_env(plan: LaunchPlan, replica: ReplicaPlan, path: str) -> dict[str, str]:
    """The variable that asks a worker for a report, in a job with reducers; else nothing."""
    has_reducers = any(each.role is Role.REDUCER for each in plan.replicas)
    if not has_reducers or replica.role not in _EXCHANGING:
        return {}
    return {trainer_contract.REDUCTION_REPORT: path}


def with_report(seen: Observation, folder: AttemptFolder) -> Observation:
    """What is seen of an attempt that is over, with its report where there is one."""
    if seen.phase not in _OVER:
        return seen
    found = report_at(folder.reduction)
    return seen if found is None else seen._replace(reduction=found)


def report_at(path: str) -> ReductionReport | None:
    """The report in a file; None where there is none, or nothing that can be read as one."""
    with suppress(OSError, ValueError, RecursionError):
        return report_of(read_json(path))
    return None
