"""Writes calls to the audit log: every change, and every call that the caller is not allowed.

Successful reads and reads of missing resources are not logged.  Queries and bodies are not logged,
because they may hold secrets.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from trainshed.api.call import Method
from trainshed.api.chain import ChainServices, RequestContext
from trainshed.model.access import ALL_PROJECTS, AccessRole
from trainshed.model.refusals import Code, Refusal

#: The codes of calls that the caller is not allowed to make.
DENIED: Final = frozenset({Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.RESOURCE_EXHAUSTED})
#: The outcome of routes outside the chain, by HTTP status.
_WORDS: Final[Mapping[int, str]] = {
    **{code.http: code.name for code in Code},
    400: Code.INVALID_ARGUMENT.name,
    404: Code.NOT_FOUND.name,
    409: Code.ALREADY_EXISTS.name,
    412: Code.FAILED_PRECONDITION.name,
    501: Code.UNIMPLEMENTED.name,
}
_DENIED_WORDS: Final = frozenset(code.name for code in DENIED)
_OK: Final = "OK"
_FIRST_ERROR: Final = 400
_BRACES: Final = re.compile(r"\{(\w+)(?::path)?\}")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: The status of a piece of an upload; the last piece has the outcome.
_INCOMPLETE: Final = 308


def note_call(around: ChainServices, passage: RequestContext, code: Code | None) -> None:
    """Log a call of Google's routes; ``code`` None: it succeeded."""
    if code not in DENIED and not _changes(passage.method):
        return
    method, params = passage.method, passage.params
    if method is None:
        method, params = _row_of(around, passage)
    path = method.path if method else ""
    name, resource = f"{passage.verb} {path}", passage.path
    if passage.verb == "gRPC":
        name, resource = passage.path, _fill(path, params)
    project, status = params.get("project", ""), code.name if code else _OK
    note(around, passage, method=name, resource=resource, project=project, status=status)


def note_response(
    around: ChainServices, passage: RequestContext, path: str, status: int, request: Request
) -> None:
    """Log a call of a route outside the chain; ``path`` is the route's template."""
    word = _OK if status < _FIRST_ERROR else _WORDS.get(status, Code.INTERNAL.name)
    is_denied = word in _DENIED_WORDS or getattr(request.state, "is_denied", False)
    if not is_denied and (passage.verb in _READING or status == _INCOMPLETE):
        return
    name = parse_qs(passage.query_string).get("name", [""])[0] if "upload" in path else ""
    caller = passage.caller
    own = caller.project if caller and caller.project != ALL_PROJECTS else ""
    note(
        around,
        passage,
        method=f"{passage.verb} {path}",
        resource=f"{passage.path}/{name}" if name else passage.path,
        project=request.path_params.get("project", own),
        status=word,
    )


def note(around: ChainServices, passage: RequestContext, **fields: str) -> None:
    """Log a call with its caller, where known."""
    caller = passage.caller
    around.audit(
        caller=caller.name if caller else "",
        credential=caller.credential if caller else "",
        address=passage.address,
        **fields,
    )


def _fill(path: str, params: Mapping[str, str]) -> str:
    """Return a template with its names replaced where their values are known."""
    return _BRACES.sub(lambda brace: params.get(brace[1], brace[0]), path)


def _changes(method: Method | None) -> bool:
    """Return whether a row changes something: these need a submitter, which a test checks."""
    return method is not None and method.role >= AccessRole.SUBMITTER


def _row_of(around: ChainServices, passage: RequestContext) -> tuple[Method | None, dict[str, str]]:
    """Return the row of a call that was refused before its row was found."""
    try:
        return around.routes.find(passage.verb, passage.path)
    except Refusal:
        return None, {}
