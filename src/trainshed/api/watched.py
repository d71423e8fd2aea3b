"""Watches requests: reports each to ``ChainServices.watch`` when it is answered.

Without a watch no code of this module runs.  A refused request is reported too; its route may be
unknown.  Raw paths are not reported, because they may hold names of objects and tickets.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainshed.api.api_names import GRPC, find_api
from trainshed.api.chain import AnsweredRequest, ChainServices, RequestContext, RequestWatch
from trainshed.model.access import ALL_PROJECTS
from trainshed.model.refusals import Refusal
from trainshed.observability.log_fields import reset_log_fields, set_log_fields
from trainshed.observability.spans import REQUEST_TRACE, RequestTrace, parse_traceparent

_NATIVE: Final = "/trainshed/v1"
_API: Final = find_api(_NATIVE)
#: The keys of what the watch needs, in the state of a request's scope.
_CALL: Final = "call"
#: nginx's status for a client that disconnected before it got an answer.
_GONE: Final = 499
_USER_AGENT_MAX: Final = 200


def note_context(scope: Scope, context: RequestContext) -> None:
    """Remember the chain's input and results with a request."""
    scope.setdefault("state", {})[_CALL] = context


async def watch_request(
    app: ASGIApp, watch: RequestWatch, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer a request with ``app``, then report it."""
    state: dict[str, Any] = scope.setdefault("state", {})
    path = scope["path"]
    trace = RequestTrace(parse_traceparent(_header(scope, b"traceparent")))
    began_ns, status, has_length = time.time_ns(), _GONE, True

    async def noting_send(message: Message) -> None:
        nonlocal status, has_length
        if message["type"] == "http.response.start":
            status = message["status"]
            has_length = any(name == b"content-length" for name, _ in message["headers"])
        await send(message)

    trace_token = REQUEST_TRACE.set(trace)
    log_token = set_log_fields(lambda: _log_fields(state.get(_CALL), trace))
    try:
        await app(scope, receive, noting_send)
    finally:
        REQUEST_TRACE.reset(trace_token)
        reset_log_fields(log_token)
        context: RequestContext | None = state.get(_CALL)
        api = find_api(path)
        client = scope.get("client")
        answered = AnsweredRequest(
            context=context,
            api=api,
            verb=scope["method"],
            route=_find_route(scope, api, context),
            project=_find_project(scope, context),
            job=_path_params(scope).get("job", "") or _job_of(context),
            status=status,
            began_ns=began_ns,
            ended_ns=time.time_ns(),
            scheme=scope.get("scheme", "http"),
            address=client[0] if client else "",
            user_agent=_header(scope, b"user-agent")[:_USER_AGENT_MAX],
            is_stream=not has_length,
            trace=trace,
        )
        watch(answered)


class GrpcWatch:
    """Reports one gRPC call; does nothing without a watch."""

    def __init__(self, services: ChainServices, context: RequestContext, traceparent: str) -> None:
        self._watch = services.watch
        self._context = context
        self._began_ns = time.time_ns()
        if self._watch is not None:
            self._trace = trace = RequestTrace(parse_traceparent(traceparent))
            self._trace_token = REQUEST_TRACE.set(trace)
            self._log_token = set_log_fields(lambda: _log_fields(context, trace))

    def end(self, refusal: Refusal | None) -> None:
        """Report the call with the status that its refusal has over HTTP."""
        if self._watch is None:
            return
        REQUEST_TRACE.reset(self._trace_token)
        reset_log_fields(self._log_token)
        context = self._context
        answered = AnsweredRequest(
            context=context,
            api=GRPC,
            verb="gRPC",
            route=context.path,
            project=_project_of(context),
            job=_job_of(context),
            status=refusal.code.http if refusal else 200,
            began_ns=self._began_ns,
            ended_ns=time.time_ns(),
            scheme="https",
            address=context.address,
            trace=self._trace,
        )
        self._watch(answered)


def _find_route(scope: Scope, api: str, context: RequestContext | None) -> str:
    """Return the template of the path of a request; empty for an unknown path."""
    if context is not None and context.method is not None:
        return context.method.path
    route: str = getattr(scope.get("route"), "path", "")
    if api != _API:
        return route
    # before the native application finds its route, the route is where that application is
    return "" if route in {"", _NATIVE} else f"{_NATIVE}{route}"


def _find_project(scope: Scope, context: RequestContext | None) -> str:
    return _path_params(scope).get("project", "") or (_project_of(context) if context else "")


def _path_params(scope: Scope) -> Mapping[str, str]:
    return scope.get("path_params") or {}


def _job_of(context: RequestContext | None) -> str:
    """Return the job of one of Google's routes; empty for other routes."""
    return context.params.get("job", "") if context else ""


def _project_of(context: RequestContext) -> str:
    """Return the project of the path, or the only project of the caller; empty if neither is."""
    if project := context.params.get("project"):
        return project
    caller = context.caller
    return caller.project if caller and caller.project != ALL_PROJECTS else ""


def _log_fields(context: RequestContext | None, trace: RequestTrace) -> Mapping[str, object]:
    """Return the fields of the records that are written while a request is answered."""
    fields: dict[str, object] = {
        "incident": trace.incident,
        "trace_id": f"{trace.trace_id:032x}",
        "span_id": f"{trace.span_id:016x}",
    }
    if context is not None:
        fields["caller"] = context.caller.name if context.caller else ""
        fields["project"] = _project_of(context)
        fields["job"] = _job_of(context)
    return fields


def _header(scope: Scope, wanted: bytes) -> str:
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value.decode("latin-1"))
    return ""
