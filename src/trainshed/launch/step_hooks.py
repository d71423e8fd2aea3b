"""A job that asks to be measured by its label has its steps seen by hooks."""

from trainshed.launch.context import Context, Variables
from trainshed.model.plan_wishes import is_measured
from trainshed.model.roles import Role
from trainshed.model.trainer_contract import STEPS


def variables(context: Context, role: Role, index: int) -> Variables:  # noqa: ARG001 - as all blocks
    """Give TRAINSHED_STEPS to all that train."""
    if role is Role.REDUCER or not is_measured(context.spec.labels):
        return {}
    return {STEPS: "hooks"}
