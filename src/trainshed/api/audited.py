"""Writes calls to the audit log: every change, and every call that the caller is not allowed.

Downloads of browsers are logged too, and calls that ended with an unexpected error, with its
number.  Other successful reads, reads of missing resources, and checks of jobs, which change
nothing, are not; nor is a browser without credentials that asks for its sign-in.  Queries and
bodies are not logged, because they may hold secrets.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from trainshed.api.call import Method
from trainshed.api.chain import ChainServices, Incident, RequestContext, incident
from trainshed.api.console.browsers import SIGN_IN_PATH, has_credential
from trainshed.api.documents import refusal_response
from trainshed.model.access import ALL_PROJECTS, AccessRole
from trainshed.model.refusals import Code, Refusal

#: The codes of calls that the caller is not allowed to make.
DENIED: Final = frozenset({Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.RESOURCE_EXHAUSTED})
#: The name of the outcome in the audit log, by HTTP status, for routes outside the chain.
_OUTCOMES: Final[Mapping[int, str]] = {
    **{code.http: code.name for code in Code},
    400: Code.INVALID_ARGUMENT.name,
    404: Code.NOT_FOUND.name,
    409: Code.ALREADY_EXISTS.name,
    412: Code.FAILED_PRECONDITION.name,
    501: Code.UNIMPLEMENTED.name,
}
_DENIED_OUTCOMES: Final = frozenset(code.name for code in DENIED)
_OK: Final = "OK"
_FIRST_ERROR: Final = 400
_BRACES: Final = re.compile(r"\{(\w+)(?::path)?\}")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Native routes that change nothing, although they have a body; a page checks a text as it grows.
_CHECKS: Final = (":check", ":dryRun")
#: The status of a piece of an upload; the last piece has the outcome.
_INCOMPLETE: Final = 308


def note_call(services: ChainServices, context: RequestContext, refusal: Refusal | None) -> None:
    """Log a call of Google's routes; ``refusal`` is None if the call succeeded."""
    is_denied = refusal is not None and refusal.code in DENIED
    if not (is_denied or isinstance(refusal, Incident) or _changes(context.method)):
        return
    method, params = context.method, context.params
    if method is None:
        method, params = _row_of(services, context)
    path = method.path if method else ""
    name, resource = f"{context.verb} {path}", context.path
    if context.verb == "gRPC":
        name, resource = context.path, _fill(path, params)
    project, status = params.get("project", ""), _describe(refusal)
    note(services, context, method=name, resource=resource, project=project, status=status)


def _describe(refusal: Refusal | None) -> str:
    """Return the outcome of a call: the code of its refusal, and the number of an incident."""
    if refusal is None:
        return _OK
    number = f" {refusal.number}" if isinstance(refusal, Incident) else ""
    return f"{refusal.code.name}{number}"


def note_response(
    services: ChainServices, context: RequestContext, path: str, status: int, request: Request
) -> None:
    """Log a call of a route outside the chain; ``path`` is the route's template."""
    outcome = _OK if status < _FIRST_ERROR else _OUTCOMES.get(status, Code.INTERNAL.name)
    number = getattr(request.state, "incident", "")
    is_denied = outcome in _DENIED_OUTCOMES or getattr(request.state, "is_denied", False)
    is_download = context.browser is not None and context.browser.ticket is not None
    is_reading = context.verb in _READING or path.endswith(_CHECKS)
    if _is_first_visit(context) and outcome == Code.UNAUTHENTICATED.name:
        return
    is_left_out = is_reading or status == _INCOMPLETE
    if is_left_out and not (is_denied or is_download or number):
        return
    name = parse_qs(context.query_string).get("name", [""])[0] if "upload" in path else ""
    caller = context.caller
    callers_project = caller.project if caller and caller.project != ALL_PROJECTS else ""
    note(
        services,
        context,
        method=f"{context.verb} {path}",
        resource=f"{context.path}/{name}" if name else context.path,
        project=request.path_params.get("project", callers_project),
        status=f"{outcome} {number}".rstrip(),
    )


def incident_response(request: Request, place: str) -> Response:
    """Answer the unexpected exception being handled; note its number for ``note_response``."""
    refusal = incident(place)
    if isinstance(refusal, Incident):
        request.state.incident = refusal.number
    return refusal_response(refusal)


def _is_first_visit(context: RequestContext) -> bool:
    """Return whether a browser without credentials asks whether it is signed in."""
    is_question = context.verb == "GET" and context.path == SIGN_IN_PATH
    return is_question and not has_credential(context)


def note(services: ChainServices, context: RequestContext, **fields: str) -> None:
    """Write a call to the audit log, with its caller if the caller was identified."""
    caller = context.caller
    services.audit(
        caller=caller.name if caller else "",
        credential=caller.credential if caller else "",
        address=context.address,
        **fields,
    )


def _fill(path: str, params: Mapping[str, str]) -> str:
    """Return a path template with each ``{name}`` replaced by its value, where it has one."""
    return _BRACES.sub(lambda brace: params.get(brace[1], brace[0]), path)


def _changes(method: Method | None) -> bool:
    """Return whether a method changes something: it needs the role submitter (a test checks it)."""
    return method is not None and method.role >= AccessRole.SUBMITTER


def _row_of(
    services: ChainServices, context: RequestContext
) -> tuple[Method | None, dict[str, str]]:
    """Look up the row of a call that was refused before ``find_route``; None for no such row."""
    try:
        return services.routes.find(context.verb, context.path)
    except Refusal:
        return None, {}
