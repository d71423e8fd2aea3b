"""The caller and the project of a native route, as FastAPI dependencies."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Depends, Request

from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal


def caller_of(request: Request) -> Caller:
    """Return the caller that the chain's guards have let in."""
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("the chain's admission must run before a native route")
    return caller


Known = Annotated[Caller, Depends(caller_of)]


def project_for(role: AccessRole) -> Callable[[str, Caller, Request], str]:
    """Return a dependency: the id of the path's project, in which the caller has this role.

    The path may have the project's number.
    """

    def enter_project(project: str, caller: Known, request: Request) -> str:
        return str(request.app.state.permissions.enter(caller, role, project))

    return enter_project


Readable = Annotated[str, Depends(project_for(AccessRole.VIEWER))]
Submittable = Annotated[str, Depends(project_for(AccessRole.SUBMITTER))]

#: The value of ``project`` in a path that means all projects of the caller.
ANY_PROJECT: Final = "-"


def project_or_all(project: str, caller: Known, request: Request) -> str | None:
    """Return the project of the path; for ``-`` the caller's project, or None for all."""
    if project == ANY_PROJECT and caller.project == ALL_PROJECTS:
        return None
    project_id = caller.project if project == ANY_PROJECT else project
    return str(request.app.state.permissions.enter(caller, AccessRole.VIEWER, project_id))


def administrator(caller: Known) -> Caller:
    """Return the caller, who administers all projects.  Raises Refusal."""
    if not caller.may(AccessRole.ADMIN, None):
        raise Refusal(Code.PERMISSION_DENIED, "only an administrator of all projects may do this")
    return caller
