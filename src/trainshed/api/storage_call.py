"""One call of the storage API: its request, its access checks, and its responses.

Handlers that touch the disk or the store run in threads; only bodies are read on the event loop.  A
refusal is sent after the body has been read: a client that is still sending would treat the closed
connection as a failure and retry, instead of reading the refusal.

A bucket exists if its folder does, and it belongs to the project that made it.  Folders without a
project (an administrator made them by hand) are visible to callers of all projects; an
administrator gives them to a project (``service.buckets``).  A bucket that a caller may not see
gets the same answer as a missing one, except that its name is taken, as at Google.
"""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from trainshed.api.call import RawMethod
from trainshed.api.google_names import is_served_google_name
from trainshed.api.incoming import watched
from trainshed.api.threads import THREADS
from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.service.upkeep.project_bytes import NoRoom, ProjectBytes
from trainshed.storage.bucket_folders import BucketNotEmpty
from trainshed.storage.folders import reason
from trainshed.storage.object_files import ConditionFailed, NameRefused, NoSuchObject
from trainshed.storage.object_hashes import HashMismatch
from trainshed.storage.object_lists import BadPageToken
from trainshed.storage.objects import Objects
from trainshed.storage.remote import RemoteFailed, RemoteRefused
from trainshed.storage.uploads import ConcurrentWrite, NoSuchUpload, Uploads
from trainshed.wire.storage_v1.requests import BadStorageRequest, document_of, error_json

#: The names that clients send for "no specific project".
NO_PROJECT = frozenset({"", "_", "<none>"})


#: The same message for a bucket of another project and for a folder without a project.
TAKEN = "The requested bucket name is not available. Choose another one."


class NoSuchBucket(Exception):
    """The caller has no bucket of this name, or may not know of it."""


class Forbidden(Exception):
    """The caller may see the bucket, but may not do this."""


class Taken(Exception):
    """The bucket's name is in use."""


class BucketOwners(Protocol):
    """The part of the store that records which project a bucket has."""

    def bucket(self, name: str) -> tuple[str, datetime] | None:
        """Return the project and the creation time of a bucket; None: it has no project."""

    def buckets(self, project: str) -> Sequence[str]:
        """Return the buckets of a project."""

    def add_bucket(self, name: str, project: str) -> str:
        """Give a bucket to a project unless it has one; return its project."""

    def project(self, id_or_number: str) -> tuple[str, str]:
        """Return the (id, number) of a project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """The buckets' objects, unfinished uploads and projects, with the access checks."""

    objects: Objects
    uploads: Uploads
    store: BucketOwners
    project_bytes: ProjectBytes = field(default_factory=ProjectBytes)

    def take(self, bucket: str, count: int) -> None:
        """Count bytes written to a bucket.  Raises NoRoom over its project's limit."""
        if self.objects.is_local(bucket) and (project := self._owner(bucket)):
            self.project_bytes.take(project, count)

    def need(self, caller: Caller, bucket: str, role: AccessRole) -> None:
        """Check that the caller has a role in a bucket.  Raises NoSuchBucket, Forbidden."""
        exists = caller.may_use(bucket) and self.objects.buckets.has(bucket)
        owner = self._owner(bucket) if exists else None
        if owner is None or not caller.may(AccessRole.VIEWER, owner or None):
            raise NoSuchBucket(_missing(caller, bucket))
        if not caller.may(role, owner or None):
            raise Forbidden(
                f"{caller.name} has the role {caller.role.name.lower()} and needs "
                f"{role.name.lower()} for this in the bucket {bucket}."
            )

    def _owner(self, bucket: str) -> str:
        """Return the project of a bucket; empty: none."""
        ownership = self.store.bucket(bucket)
        return ownership[0] if ownership else ""

    def make(self, caller: Caller, bucket: str, project: str) -> None:
        """Make a bucket in a project (an id, a number, or none).

        Raises Forbidden, and Taken where the name is in use.
        """
        owner = self.project(caller, project, AccessRole.SUBMITTER)
        if not caller.may_use(bucket):
            raise Forbidden(f"{caller.name} may make the bucket {caller.bucket} only; {_WIDER}")
        ownership = self.store.bucket(bucket)
        exists = self.objects.buckets.has(bucket)
        if not caller.may(AccessRole.VIEWER, ownership[0] if ownership else None) and (
            ownership or exists
        ):
            raise Taken(TAKEN)
        if exists:
            raise Taken("Your previous request to create the named bucket succeeded: it is there.")
        if owner and self.store.add_bucket(bucket, owner) != owner:
            raise Taken(TAKEN)
        self.objects.buckets.make(bucket)

    def visible(self, caller: Caller, project: str) -> Sequence[str]:
        """Return the buckets of a project, or all that the caller may see, sorted."""
        project_id = self.project(caller, project, AccessRole.VIEWER)
        if not project_id:
            return self.objects.buckets.names()
        owned = filter(caller.may_use, self.store.buckets(project_id))
        return sorted(name for name in owned if self.objects.buckets.has(name))

    def project(self, caller: Caller, project: str, role: AccessRole) -> str:
        """Return the id of a named project; empty if none is named.  Raises Forbidden."""
        if project in NO_PROJECT:
            project = "" if caller.project == ALL_PROJECTS else caller.project
        project_id = self.store.project(project)[0] if project else ""
        if not caller.may(role, project_id or None):
            scope = f"in the project {project}" if project else "on this server"
            raise Forbidden(
                f"{caller.name} does not have the role {role.name.lower()} {scope}; use a token "
                "with this role, which an administrator makes (trainshed tokens create)."
            )
        return project_id

    def number_and_creation(self, bucket: str) -> tuple[str, datetime]:
        """Return the project number of a bucket (empty: none), and its creation time."""
        ownership = self.store.bucket(bucket)
        if ownership is None:
            return "", self.objects.buckets.since(bucket)
        return self.store.project(ownership[0])[1], ownership[1]


#: Advice to a caller whose token is for one bucket only.
_WIDER = "`trainshed env` prints an address for every bucket that you may use."


def _missing(caller: Caller, bucket: str) -> str:
    """Return the message about a bucket that does not exist, or that another project has.

    It depends only on the caller and the name, so that it does not distinguish the two.
    """
    missing = "The specified bucket does not exist."
    if not caller.may_use(bucket):
        return f"{missing} This storage address is for the bucket {caller.bucket} only; {_WIDER}"
    create = f"trainshed buckets create {bucket}"
    if caller.project == ALL_PROJECTS:
        return f"{missing} Create it with: {create}"
    allowed = f"{caller.name} may use the buckets of project {caller.project}."
    return f"{missing} {allowed} Create it with: {create} --project {caller.project}"


DOCUMENT_BYTES_MAX = 1 << 20
#: Bytes of a refused body that are read before the connection is closed.
DRAINED_BYTES_MAX = 64 << 20

STATUS: Mapping[type[Exception], int] = {
    BadStorageRequest: 400,
    NameRefused: 400,
    HashMismatch: 400,
    BadPageToken: 400,
    Forbidden: 403,
    NoRoom: 403,
    RemoteRefused: 403,
    NoSuchBucket: 404,
    NoSuchObject: 404,
    NoSuchUpload: 404,
    Taken: 409,
    BucketNotEmpty: 409,
    ConditionFailed: 412,
    ConcurrentWrite: 503,
    RemoteFailed: 503,
}

#: HTTP status by errno: 5xx only if a retry can help.
DISK_STATUS = {
    errno.ENOSPC: 507,
    errno.EDQUOT: 507,
    errno.EFBIG: 507,
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.EROFS: 403,
    errno.ENAMETOOLONG: 400,
}


@dataclass(slots=True, kw_only=True)
class StorageCall:
    """A call of an identified caller."""

    request: Request
    caller: Caller
    access: BucketAccess
    body_ended: bool = False
    gone: bool = False
    """The client has disconnected: long work may stop."""

    @property
    def query(self) -> Mapping[str, str]:
        """Return the query parameters.  Raises BadStorageRequest if they are not UTF-8."""
        raw: bytes = self.request.scope["query_string"]
        try:
            return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict"))
        except UnicodeDecodeError:
            raise BadStorageRequest("Invalid query: it is not UTF-8") from None

    @property
    def bucket(self) -> str:
        """Return the unchecked bucket name in the path."""
        return str(self.request.path_params["bucket"])

    @property
    def path_parts(self) -> list[str]:
        """Return the parts of the path after ``/o/``, each decoded separately.

        Clients encode a name as one part (``a%2Fb``), which distinguishes it from ``compose`` and
        ``rewriteTo`` after it.  Starlette's decoded path has lost this.
        """
        raw: bytes = self.request.scope["raw_path"]
        _, _, rest = raw.partition(b"/storage/v1/b/")
        parts = rest.split(b"/")[2:]
        try:
            return [unquote_to_bytes(part).decode() for part in parts]
        except UnicodeDecodeError:
            raise BadStorageRequest("Invalid object name: it is not UTF-8") from None

    @property
    def base(self) -> str:
        """Return the server's URL as the caller used it, with a token prefix.

        A client that named Google used TLS, which the proxy of ``trainshed run`` ended.
        """
        scope = self.request.scope
        host = self.request.headers.get("host", "")
        is_googles = is_served_google_name(host.partition(":")[0].lower())
        scheme = "https" if is_googles else scope["scheme"]
        return f"{scheme}://{host}{scope.get('root_path', '')}"

    def go_on(self) -> None:
        """Raise ClientDisconnect if the client has disconnected."""
        if self.gone:
            raise ClientDisconnect

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.  Raises ClientDisconnect if it is cut off."""
        if self.body_ended:
            return
        async for piece in self.request.stream():
            if piece:
                yield piece
        self.body_ended = True

    async def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; empty without a body."""
        text = b""
        async for piece in self.pieces():
            text += piece
            if len(text) > DOCUMENT_BYTES_MAX:
                raise BadStorageRequest(f"The document is larger than {DOCUMENT_BYTES_MAX} bytes")
        return document_of(text, "The body")

    async def drain(self) -> None:
        """Read the rest of the body, up to a limit."""
        read = 0
        async for piece in self.pieces():
            read += len(piece)
            if read > DRAINED_BYTES_MAX:
                return


Handler = Callable[[StorageCall], Awaitable[Response]]
BlockingHandler = Callable[[StorageCall, dict[str, Any]], Response]


def method(verb: str, path: str, access: BucketAccess, handle: Handler) -> RawMethod:
    """Return a row of the route table, with refusals in the storage API's form."""

    async def answered(request: Request, caller: Caller) -> Response:
        call = StorageCall(request=request, caller=caller, access=access)
        try:
            return await _answer(call, handle)
        except ClientDisconnect:
            return refusal(499, "The client has disconnected")

    return RawMethod(verb=verb, path=path, handle=answered)


def blocking(handle: BlockingHandler) -> Handler:
    """Return a handler that reads the JSON body and then calls ``handle`` in a thread."""

    async def run(call: StorageCall) -> Response:
        document = await call.document()
        with watched(call.request.receive, call):
            return await THREADS.run(handle, call, document)

    return run


async def _answer(call: StorageCall, handle: Handler) -> Response:
    try:
        return await handle(call)
    except tuple(STATUS) as error:
        call.request.state.is_denied = isinstance(error, NoSuchBucket)  # for the audit log
        answer = refusal(STATUS[type(error)], str(error))
    except OSError as error:
        answer = refusal(
            DISK_STATUS.get(error.errno or 0, 503),
            f"The server cannot use its disk: {reason(error)}",
        )
    await call.drain()
    return answer


def refusal(code: int, message: str) -> Response:
    """Return an error in the storage API's form."""
    return JSONResponse(error_json(code, message), status_code=code)
