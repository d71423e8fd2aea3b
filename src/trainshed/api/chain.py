"""The handler chain: every call of Google's routes takes these steps, in this order.

``CHAIN``, for REST:

1.  ``guard``: the Host is ours and the Origin is no foreign page; 400 for two Hosts.
2.  ``recognise``: the Authorization header has a caller; 403 without one, 401 for a wrong one,
    429 for too many wrong ones, 403 for one whose token is for buckets and nothing else.
3.  ``bound_body``: the body is not over the limit; 413.
4.  ``find_route``: the path and verb have a row in the table; 404 or 405.
5.  ``authorise``: the caller has the row's role in the path's project; 403, for a foreign project
    in the same words as for none.
6.  ``name_project``: a project's number becomes its id.
7.  ``read_request``: the query's parameters are known ones and the body is a JSON object; 400.
8.  ``know_repetition``: a create that gcloud repeats gets the key of its first try.
9.  ``handle``: the row's handler does it.
10. ``hold_end``: a gcloud that streams a job's log learns of the job's end when it can read it all.
11. ``write_json``: the answer becomes bytes.

No page speaks gRPC, and grpcio bounds, routes and reads messages itself, so ``grpc_chain`` has the
steps between.  Errors are rendered last, by the transport, from the one kind that ``perform``
raises.
"""

import hashlib
import logging
import re
import secrets
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from trainshed.api.call import Call, Json, Method, Routes
from trainshed.api.documents import read_document, read_query, refuse_large, write_document
from trainshed.api.guards import check_host, check_origin
from trainshed.api.permissions import Permissions, refuse_low
from trainshed.api.streamed_ends import without_fresh_end
from trainshed.model.access import ALL_BUCKETS, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.store.base import StoreFault

_log = logging.getLogger(__name__)

#: An id that all repetitions of a request by one gcloud run have (docs/sources/gcloud.md 2).
INVOCATION: Final = re.compile(r"\binvocation-id/([0-9a-zA-Z]+)")


CLIENT_GONE: Final = "the client disconnected"
GIVEN_TWICE: Final = "is given twice; send it once"


class Recognise(Protocol):
    """Identifies the caller of an Authorization header, or raises a Refusal."""

    def __call__(self, authorization: str | None, *, loopback: bool, address: str) -> Caller:
        """``loopback``: the call comes from this machine; ``address`` is the client's."""


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One call in the chain: the transport's input, then the results of the steps."""

    verb: str = "POST"
    path: str = ""
    """The path as the client sent it, percent-encoded."""
    query_string: str = ""
    body: bytes = b""
    content_type: str = ""
    authorization: str | None = None
    user_agent: str = ""
    host: str | None = None
    origin: str | None = None
    fetch_site: str | None = None
    loopback: bool = False
    address: str = ""
    in_path: bool = False
    """The token was in the path."""
    of_storage: bool = False
    """The call is for the storage API, which accepts tokens for buckets."""
    gone: bool = False
    """The client has disconnected: no further step begins."""
    repeated: str = ""
    """A header that was given twice but may be given once."""

    caller: Caller | None = None
    method: Method | None = None
    params: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    document: Json | None = None
    retry_key: str | None = None
    answer: Json = field(default_factory=dict)
    reply: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainServices:
    """The services and settings that the steps use.

    ``allowed_hosts`` are the bound host and the configured names; ``allowed_origins`` are those of
    the settings.  The largest body bounds JSON only: uploads have no limit.
    """

    routes: Routes
    permissions: Permissions
    recognise: Recognise
    allowed_hosts: Collection[str]
    allowed_origins: Collection[str]
    body_bytes_max: int
    audit: Callable[..., None] = lambda **_: None
    """Writes an entry with these fields to the audit log."""


#: A full token in an address is refused, because addresses are written to many logs and files.
LONG_LIVED = (
    "A token in an address must be one for buckets: addresses are written into logs and files. "
    "`trainshed env` prints the settings with such a token, `trainshed buckets token` makes one."
)

Step = Callable[[ChainServices, RequestContext], None]


def guard(around: ChainServices, passage: RequestContext) -> None:
    """Keep foreign web pages from using a browser's place on this machine."""
    if passage.repeated:
        raise Refusal(Code.INVALID_ARGUMENT, f"the header {passage.repeated} {GIVEN_TWICE}")
    check_host(passage.host, around.allowed_hosts)
    check_origin(passage.origin, passage.fetch_site, around.allowed_origins, host=passage.host)


def recognise(around: ChainServices, passage: RequestContext) -> None:
    """Identify the caller."""
    caller = passage.caller = around.recognise(
        passage.authorization, loopback=passage.loopback, address=passage.address
    )
    if passage.in_path and caller.bucket is None:
        raise Refusal(Code.UNAUTHENTICATED, LONG_LIVED)
    if caller.bucket is not None and not passage.of_storage:
        raise Refusal(Code.PERMISSION_DENIED, f"Permission denied: {_bound(caller.bucket)}")


def _bound(bucket: str) -> str:
    if bucket == ALL_BUCKETS:
        return "this token is for buckets and their objects only"
    return f"this token is for objects of the bucket {bucket} only"


def bound_body(around: ChainServices, passage: RequestContext) -> None:
    """Refuse a body over the limit; the transport stops reading one byte after the limit."""
    if len(passage.body) > around.body_bytes_max:
        refuse_large(around.body_bytes_max)


def find_route(around: ChainServices, passage: RequestContext) -> None:
    """Look up the row and the parts of the resource's name."""
    passage.method, passage.params = around.routes.find(passage.verb, passage.path)


def authorise(around: ChainServices, passage: RequestContext) -> None:
    """Ask for the row's role in the path's project.

    Where the path has none, the document names projects and the handler asks about each of them.
    """
    caller, method = _caller(passage), _method(passage)
    if "project" in passage.params:
        around.permissions.authorise(caller, method.role, passage.params["project"])
    else:
        refuse_low(caller, method.role)


def name_project(around: ChainServices, passage: RequestContext) -> None:
    """Replace a project's number by its id."""
    if "project" in passage.params:
        passage.params["project"] = around.permissions.project_id(passage.params["project"])


def read_request(around: ChainServices, passage: RequestContext) -> None:
    """Read the query, and the body where the row has one; ignore the body of a GET."""
    del around
    method = _method(passage)
    passage.query = read_query(passage.query_string, method.query)
    if method.body:
        passage.document = read_document(passage.body, passage.content_type)


def know_repetition(around: ChainServices, passage: RequestContext) -> None:
    """Give a create a key made of its caller, gcloud's run, and its bytes.

    A repetition of the create gets the same key (docs/sources/gcloud.md 8.3).
    """
    del around
    run = INVOCATION.search(passage.user_agent)
    if run and _method(passage).is_create:
        caller = _caller(passage)
        words = (caller.name, caller.project, run[1], passage.verb, passage.path)
        name = "\0".join(words).encode("utf-8", "backslashreplace")
        passage.retry_key = hashlib.sha256(name + b"\0" + passage.body).hexdigest()


def handle(around: ChainServices, passage: RequestContext) -> None:
    """Call the handler of the row."""
    del around
    call = Call(
        caller=_caller(passage),
        params=passage.params,
        query=passage.query,
        document=passage.document,
        retry_key=passage.retry_key,
    )
    passage.answer = _method(passage).handle(call)


def hold_end(around: ChainServices, passage: RequestContext) -> None:
    """Omit a recent ``endTime`` for a gcloud that streams the job's log."""
    del around
    now = datetime.now(UTC)
    passage.answer = dict(without_fresh_end(passage.answer, passage.user_agent, now))


def write_json(around: ChainServices, passage: RequestContext) -> None:
    """Encode the answer as the reply's JSON."""
    del around
    passage.reply = write_document(passage.answer)


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
    """Return the other steps of a gRPC method; the message has name, query and document."""
    return (read_message, authorise, name_project, handle, write_message)


def perform(steps: Sequence[Step], around: ChainServices, passage: RequestContext) -> None:
    """Run the steps.  Raises only Refusal."""
    try:
        for step in steps:
            _check_waited_for(passage)
            step(around, passage)
    except Refusal:
        raise
    except Exception:  # noqa: BLE001  # the one place that turns unexpected errors into a response
        raise incident(f"{passage.verb} {passage.path}") from None


def _check_waited_for(passage: RequestContext) -> None:
    if passage.gone:
        raise Refusal(Code.CANCELLED, CLIENT_GONE)


def incident(what: str) -> Refusal:
    """Return the response to the unexpected exception being handled.

    The caller gets a number, the log the traceback.  While the database is unavailable, the
    response asks the caller to try again.
    """
    if isinstance(error := sys.exception(), StoreFault):
        _log.error("%s: %s", what, error)  # transient: no traceback
        return database_away(error)
    number = secrets.token_hex(4)
    _log.exception("incident %s at %s", number, what)
    message = f"The server failed unexpectedly; its log has the details as incident {number}"
    return Refusal(Code.INTERNAL, message)


def database_away(fault: StoreFault) -> Refusal:
    """Return the response while the database is unavailable."""
    message = fault.answer or "The server cannot use its database now; try again in a moment"
    return Refusal(Code.UNAVAILABLE, message)


def _caller(passage: RequestContext) -> Caller:
    if passage.caller is None:
        raise AssertionError("recognise must run before a step that reads the caller")
    return passage.caller


def _method(passage: RequestContext) -> Method:
    if passage.method is None:
        raise AssertionError("find_route must run before a step that reads the row")
    return passage.method
