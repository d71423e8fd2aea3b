"""Who calls a native route, and whether he may: what the routes depend on."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request

from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal


def caller_of(request: Request) -> Caller:
    """The caller whom the chain's guards have let in."""
    found = request.state.caller
    if not isinstance(found, Caller):
        raise TypeError("the native routes come behind the chain's admission")
    return found


Known = Annotated[Caller, Depends(caller_of)]


def project_for(role: AccessRole) -> Callable[[str, Caller, Request], str]:
    """The id of the path's project, in which the caller has this role; the path may number it."""

    def allowed(project: str, caller: Known, request: Request) -> str:
        return str(request.app.state.permissions.enter(caller, role, project))

    return allowed


Readable = Annotated[str, Depends(project_for(AccessRole.VIEWER))]


def administrator(caller: Known) -> Caller:
    """The caller, if everything is his to change.  Raises Refusal."""
    if not caller.may(AccessRole.ADMIN, None):
        raise Refusal(Code.PERMISSION_DENIED, "only an administrator of all projects may do this")
    return caller
