"""One call of the API, whichever transport brought it; and the rows of the route table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from trainshed.model.access import AccessRole, Caller

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that passed the chain: somebody may do this, and the document is JSON.

    ``params`` are the parts of the resource name (``project`` is an id, never a number;
    ``location``, ``job``, ...).  ``query`` holds query parameters in camelCase.  ``retry_key`` is
    set where the client repeats its requests recognisably (contracts/gcloud.md 8.3).
    """

    caller: Caller
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    retry_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the table of Google's routes: REST and gRPC names of one handler.

    ``path`` is a template such as ``/v1/projects/{project}/jobs/{job}:cancel``.  ``rpc`` is the
    full gRPC name, ``Service/Method`` without the leading slash; empty where there is none (ml v1).
    ``request`` and ``response`` are full protobuf names; ``body`` is the request's field that the
    HTTP body fills (``*``: the whole request; empty: there is none).  ``query`` names the query
    parameters that the call knows, in camelCase; any other is refused.
    """

    verb: str
    path: str
    role: AccessRole
    handle: Callable[[Call], Json]
    rpc: str = ""
    request: str = ""
    response: str = ""
    body: str = ""
    query: tuple[str, ...] = ()

    @property
    def is_create(self) -> bool:
        """Whether a repetition of the call would make a second resource."""
        return self.verb == "POST" and ":" not in self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMethod:
    """A route that reads and writes bytes itself (storage).  The handler checks the access.

    ``path`` is Starlette's (``/storage/v1/b/{bucket}/o/{name:path}``).
    """

    verb: str
    path: str
    handle: Callable[[Request, Caller], Awaitable[Response]]
