"""Gives programs the span of their attempt, so that one with OpenTelemetry continues the trace.

The variable is that of OpenTelemetry's environment-variable carrier.  Google sets none, so it is
left out where the server has no traces.
"""

from trainshed.launch.context import Context, Variables
from trainshed.launch.variables import TRACEPARENT
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:  # noqa: ARG001 - as all blocks
    """Return TRACEPARENT for a replica, except a reducer; a value of the job's own env wins."""
    if role is Role.REDUCER or not context.site.traceparent:
        return {}
    return {TRACEPARENT: context.site.traceparent}
