"""The handler chain: every call of Google's routes takes these steps, in this order.

``CHAIN``, for REST:

1.  ``guard``: the Host header names this server, and the Origin is not a foreign web page; 403,
    or 400 for two Host headers.
2.  ``recognise``: the Authorization header identifies a caller; 403 without a token, 401 for a
    wrong one, 429 for too many wrong ones, 403 for a token that is for buckets only.
3.  ``bound_body``: the body is not over the limit; 413.
4.  ``find_route``: the path and verb have a row in the table; 404 or 405.
5.  ``authorise``: the caller has the row's role in the path's project; 403, with the same message
    for another caller's project and for a missing one.
6.  ``name_project``: a project's number becomes its id.
7.  ``read_request``: the query has only parameters of the row, and the body is a JSON object; 400.
8.  ``know_repetition``: a create that gcloud repeats gets the key of its first try.
9.  ``handle``: the row's handler performs the call.
10. ``hold_end``: a recent ``endTime`` is omitted for a gcloud that still streams the job's log.
11. ``write_json``: the answer becomes bytes.

Web pages cannot send gRPC, and grpcio itself limits, routes and reads messages, so ``grpc_chain``
has only the other steps.  ``perform`` raises only Refusal, which the transport renders.
"""

import logging
import re
import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from trainshed.api.call import Call, Json, Method, Routes, make_retry_key
from trainshed.api.documents import read_document, read_query, refuse_large, write_document
from trainshed.api.guards import check_host, check_origin, is_page_visit
from trainshed.api.measured import Answered, Refused
from trainshed.api.permissions import Permissions, refuse_low
from trainshed.api.streamed_ends import without_fresh_end
from trainshed.model.access import ALL_BUCKETS, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.observability.spans import REQUEST_TRACE, RequestTrace
from trainshed.service.auth.browser_proofs import BrowserProof
from trainshed.store.base import StoreFault

_log = logging.getLogger(__name__)

#: An id that all repetitions of a request by one gcloud run have (docs/sources/gcloud.md 2).
INVOCATION: Final = re.compile(r"\binvocation-id/([0-9a-zA-Z]+)")


CLIENT_GONE: Final = "the client disconnected"
GIVEN_TWICE: Final = "is given twice; send it once"


class Recognise(Protocol):
    """Identifies the caller of an Authorization header, or raises a Refusal."""

    def __call__(self, authorization: str | None, *, loopback: bool, address: str) -> Caller:
        """``loopback`` is whether the client is on this machine; ``address`` is its IP address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserAccess:
    """How browsers call with a sign-in."""

    recognise: Callable[[BrowserProof], Caller]
    """Identifies the caller of a sign-in, or raises a Refusal."""
    plain_http: bool = False
    """Whether browsers on other machines may sign in over plain HTTP."""


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One call in the chain: the transport's input, then the results of the steps."""

    verb: str = "POST"
    path: str = ""
    """The path as the client sent it, percent-encoded."""
    scheme: str = "http"
    """``https`` if this server provides TLS."""
    query_string: str = ""
    body: bytes = b""
    content_type: str = ""
    authorization: str | None = None
    cookie: str | None = field(default=None, repr=False)
    csrf: str | None = field(default=None, repr=False)
    """The header ``X-Trainshed-Csrf`` of the console's page."""
    browser: BrowserProof | None = None
    """The sign-in of a browser, on the routes where it counts; None: none, or a token instead."""
    allows_stranger: bool = False
    """Whether the route answers callers without credentials too, because they sign in there."""
    user_agent: str = ""
    host: str | None = None
    origin: str | None = None
    fetch_site: str | None = None
    fetch_mode: str | None = None
    fetch_dest: str | None = None
    loopback: bool = False
    address: str = ""
    in_path: bool = False
    """Whether the token was in the path, not in the Authorization header."""
    of_storage: bool = False
    """Whether the call is for the storage API, which accepts tokens for buckets."""
    gone: bool = False
    """Whether the client has disconnected; then no further step begins."""
    repeated: str = ""
    """The name of a header that was given twice but may be given only once; empty if none."""

    caller: Caller | None = None
    method: Method | None = None
    params: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    document: Json | None = None
    retry_key: str | None = None
    answer: Json = field(default_factory=dict)
    reply: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRequest:
    """A request and its answer.  Times are nanoseconds since 1970."""

    context: RequestContext | None
    """None for a route outside the chain, such as a page of the console."""
    api: str
    """One of ``api.api_names.APIS``."""
    verb: str
    route: str
    """The template of the path; of gRPC the method; empty for an unknown path."""
    project: str = ""
    job: str = ""
    """The job of the route; empty for other routes."""
    status: int
    """The HTTP status, or that which the refusal of a gRPC call has over HTTP."""
    began_ns: int
    ended_ns: int
    scheme: str = "http"
    address: str = ""
    user_agent: str = ""
    is_stream: bool = False
    """Whether the answer had no length: it lasted as long as the client read."""
    trace: RequestTrace

    @property
    def method(self) -> str:
        """The name of the request: its verb and its route."""
        return f"{self.verb} {self.route}".strip()

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9


RequestWatch = Callable[[AnsweredRequest], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainServices:
    """The services and settings that the steps use.

    ``allowed_hosts`` are the bound host and the configured names; ``allowed_origins`` are the
    configured origins.  ``body_bytes_max`` limits JSON only: uploads have no limit.
    """

    routes: Routes
    permissions: Permissions
    recognise: Recognise
    allowed_hosts: Collection[str]
    allowed_origins: Collection[str]
    body_bytes_max: int
    browsers: BrowserAccess | None = None
    """None: the console is switched off, or no call needs a token."""
    audit: Callable[..., None] = lambda **_: None
    """Writes an entry with these fields to the audit log."""
    watch: RequestWatch | None = None
    """Gets each request when it is answered; None: requests are neither logged nor traced."""
    answered: Answered = lambda *_: None
    """Counts an answer."""
    refused: Refused = lambda *_: None
    """Counts a create that was refused for its document."""


#: A full token in an address is refused, because addresses are written to many logs and files.
LONG_LIVED = (
    "A token in an address must be a token for buckets: logs and files contain addresses. "
    "`trainshed env` prints the settings with such a token, `trainshed buckets token` makes one."
)

Step = Callable[[ChainServices, RequestContext], None]


def guard(services: ChainServices, context: RequestContext) -> None:
    """Refuse requests that a foreign web page sends through a user's browser."""
    _guard_host(services, context)
    # the origins of the settings call with tokens; a sign-in is for this server's own page alone
    allowed = () if context.browser is not None else services.allowed_origins
    check_origin(context.origin, context.fetch_site, allowed, host=context.host)


def guard_page(services: ChainServices, context: RequestContext) -> None:
    """Do the same for a page of this server, which links on other pages may open."""
    if is_page_visit(context.verb, context.fetch_mode, context.fetch_dest):
        _guard_host(services, context)
    else:
        guard(services, context)


def _guard_host(services: ChainServices, context: RequestContext) -> None:
    if context.repeated:
        raise Refusal(Code.INVALID_ARGUMENT, f"the header {context.repeated} {GIVEN_TWICE}")
    check_host(context.host, services.allowed_hosts)


def recognise(services: ChainServices, context: RequestContext) -> None:
    """Identify the caller; refuse a token that may not be used for this call."""
    try:
        caller = context.caller = _identify(services, context)
    except Refusal:
        if context.allows_stranger and not context.authorization and context.browser is None:
            return
        raise
    if context.in_path and caller.bucket is None:
        raise Refusal(Code.UNAUTHENTICATED, LONG_LIVED)
    if caller.bucket is not None and not context.of_storage:
        raise Refusal(Code.PERMISSION_DENIED, f"Permission denied: {_token_limit(caller.bucket)}")


def _identify(services: ChainServices, context: RequestContext) -> Caller:
    """Return the caller: a browser's by its sign-in, unless the call has a token."""
    if context.browser is None or services.browsers is None:
        return services.recognise(
            context.authorization, loopback=context.loopback, address=context.address
        )
    caller = services.browsers.recognise(context.browser)
    # a stream is admitted again and again, and its ticket is valid for a minute only
    context.browser = replace(context.browser, is_proved=True)
    return caller


def _token_limit(bucket: str) -> str:
    if bucket == ALL_BUCKETS:
        return "this token is for buckets and their objects only"
    return f"this token is for objects of the bucket {bucket} only"


def bound_body(services: ChainServices, context: RequestContext) -> None:
    """Refuse a body over the limit; the transport stops reading one byte after the limit."""
    if len(context.body) > services.body_bytes_max:
        refuse_large(services.body_bytes_max)


def find_route(services: ChainServices, context: RequestContext) -> None:
    """Look up the row and the parts of the resource's name."""
    context.method, context.params = services.routes.find(context.verb, context.path)


def authorise(services: ChainServices, context: RequestContext) -> None:
    """Check that the caller has the row's role in the path's project.

    If the path has no project, the document names projects, and the handler checks each of them.
    """
    caller, method = _caller(context), _method(context)
    if "project" in context.params:
        services.permissions.authorise(caller, method.role, context.params["project"])
    else:
        refuse_low(caller, method.role)


def name_project(services: ChainServices, context: RequestContext) -> None:
    """Replace a project's number by its id."""
    if "project" in context.params:
        context.params["project"] = services.permissions.project_id(context.params["project"])


def read_request(services: ChainServices, context: RequestContext) -> None:
    """Read the query, and the body where the row has one; ignore the body of a GET."""
    del services
    method = _method(context)
    context.query = read_query(context.query_string, method.query)
    if method.body:
        context.document = read_document(context.body, context.content_type)


def know_repetition(services: ChainServices, context: RequestContext) -> None:
    """Give a create a key made of its caller, gcloud's run, and its bytes.

    A repetition of the create gets the same key (docs/sources/gcloud.md 8.3).
    """
    del services
    invocation = INVOCATION.search(context.user_agent)
    if invocation and _method(context).is_create:
        caller = _caller(context)
        parts = (caller.name, caller.project, invocation[1], context.verb, context.path)
        context.retry_key = make_retry_key(parts, context.body)


def handle(services: ChainServices, context: RequestContext) -> None:
    """Call the handler of the row."""
    del services
    call = Call(
        caller=_caller(context),
        params=context.params,
        query=context.query,
        document=context.document,
        retry_key=context.retry_key,
    )
    context.answer = _method(context).handle(call)


def hold_end(services: ChainServices, context: RequestContext) -> None:
    """Omit a recent ``endTime`` for a gcloud that streams the job's log."""
    del services
    now = datetime.now(UTC)
    context.answer = dict(without_fresh_end(context.answer, context.user_agent, now))


def write_json(services: ChainServices, context: RequestContext) -> None:
    """Encode the answer as the reply's JSON."""
    del services
    context.reply = write_document(context.answer)


ADMISSION: Final[Sequence[Step]] = (guard, recognise)
"""The steps before every route, Google's or native."""

CHAIN: Final[Sequence[Step]] = (
    *ADMISSION,
    bound_body,
    find_route,
    authorise,
    name_project,
    read_request,
    know_repetition,
    handle,
    hold_end,
    write_json,
)


GRPC_ADMISSION: Final[Sequence[Step]] = (recognise,)
"""The steps that run before the server waits for a gRPC message."""


def grpc_chain(read_message: Step, write_message: Step) -> Sequence[Step]:
    """Return the steps after ``GRPC_ADMISSION``, with these that read and write the message."""
    return (read_message, authorise, name_project, handle, write_message)


#: The steps that may wait, and the names of their spans.
TRACED_STEPS: Final[Mapping[Step, str]] = {recognise: "recognise", handle: "handle"}
#: A shorter step has no span: most take microseconds.
PART_NS_MIN: Final = 1_000_000


def perform(steps: Sequence[Step], services: ChainServices, context: RequestContext) -> None:
    """Run the steps.  Raises only Refusal."""
    trace = REQUEST_TRACE.get()
    try:
        for step in steps:
            _check_client(context)
            name = TRACED_STEPS.get(step) if trace else None
            began_ns = time.time_ns() if name else 0
            step(services, context)
            if trace and name and (took_ns := time.time_ns() - began_ns) >= PART_NS_MIN:
                trace.add_child(name, began_ns, began_ns + took_ns)
    except Refusal:
        raise
    except Exception:  # noqa: BLE001  # the one place that turns unexpected errors into a response
        raise incident(f"{context.verb} {context.path}") from None


def _check_client(context: RequestContext) -> None:
    if context.gone:
        raise Refusal(Code.CANCELLED, CLIENT_GONE)


class Incident(Refusal):
    """A call that ended with an unexpected error; the number leads to it in the server's log."""

    def __init__(self, number: str) -> None:
        """Tell the caller the number."""
        message = f"The server failed unexpectedly; its log has the details as incident {number}"
        super().__init__(Code.INTERNAL, message)
        self.number = number


def incident(place: str) -> Refusal:
    """Return the response to the unexpected exception being handled.

    ``place`` names the call in the log.  The response has a number, and the log has the traceback
    with this number.  While the database is unavailable, the response asks the caller to try again.
    """
    if isinstance(error := sys.exception(), StoreFault):
        _log.error("%s: %s", place, error)  # transient: no traceback
        return database_away(error)
    number = secrets.token_hex(4)
    if (trace := REQUEST_TRACE.get()) is not None:
        trace.incident = number
    _log.exception("incident %s at %s", number, place, extra={"fields": {"incident": number}})
    return Incident(number)


def database_away(fault: StoreFault) -> Refusal:
    """Return the response while the database is unavailable."""
    message = fault.answer or "The server cannot use its database now; try again in a moment"
    return Refusal(Code.UNAVAILABLE, message)


def _caller(context: RequestContext) -> Caller:
    if context.caller is None:
        raise AssertionError("recognise must run before a step that reads the caller")
    return context.caller


def _method(context: RequestContext) -> Method:
    if context.method is None:
        raise AssertionError("find_route must run before a step that reads the row")
    return context.method
