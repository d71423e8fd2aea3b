"""What one replica of a plan would see: the answer of ``trainshed explain-env``."""

from collections import Counter
from collections.abc import Mapping

from trainshed.launch.names import role_word
from trainshed.model.faults import Fault, Field, FieldPath, Violation
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role


def replica_env(plan: LaunchPlan, role: Role, index: int) -> Mapping[str, str]:
    """Give the environment of one replica; a Fault names those that exist when it does not."""
    for replica in plan.replicas:
        if (replica.role, replica.index) == (role, index):
            return replica.env
    raise Fault([_no_such_replica(plan, role, index)])


def _no_such_replica(plan: LaunchPlan, role: Role, index: int) -> Violation:
    return Violation(
        field=FieldPath(Field.GROUP, role),
        rule="no-such-replica",
        message=f"This job has no {role_word(role)} {index}.",
        accepted=_existing(plan),
    )


def _existing(plan: LaunchPlan) -> str:
    counts = Counter(replica.role for replica in plan.replicas)
    return ", ".join(f"{role_word(role)} {_span(count)}" for role, count in counts.items())


def _span(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"
