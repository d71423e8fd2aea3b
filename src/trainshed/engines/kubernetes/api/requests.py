"""The values and protocols between the client and what carries its requests."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

#: HTTP code of a request that succeeded.
OK: Final = 200


class RequestLimits(NamedTuple):
    """Limits of one request, in seconds."""

    connect_s: float = 5.0
    read_s: float = 30.0
    """For the first byte of the answer, and between two reads."""
    whole_s: float = 60.0
    """From the first byte of the answer's body to its end."""


class ApiRequest(NamedTuple):
    """One request, without credentials."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"


class ApiAnswer(NamedTuple):
    """A complete answer, also one with an error."""

    status: int
    body: bytes
    retry_after: str | None = None


class ByteSource(Protocol):
    """The body of an answer that is read while the API server writes it."""

    def read(self) -> bytes:
        """Wait for the next bytes; empty at the end.  Raises ApiAway."""

    def interrupt(self) -> None:
        """End a read in another thread, and all later ones."""

    def close(self) -> None:
        """Close the connection; no thread may be reading."""


class Carrier(Protocol):
    """Carries requests to one cluster, for all threads."""

    def read_namespace(self) -> str:
        """Return the namespace of the configuration; empty: it has none.  Raises ApiAway."""

    def send(self, request: ApiRequest) -> ApiAnswer:
        """Send a request and read the whole answer, also one with an error.  Raises ApiAway."""

    def open(self, request: ApiRequest, read_s: float) -> ApiAnswer | ByteSource:
        """Send a request; leave a successful answer's body unread.  Raises ApiAway.

        ``read_s``: time limit of each later read.
        """

    def close(self) -> None:
        """Close the connections that no request uses."""
