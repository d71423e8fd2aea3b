"""Sends HTTP requests to an API server, through urllib3, with limits of time and bytes.

The official client's own calls read a body of any size, and their errors print headers.  So only
its connection pool is used.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3 import exceptions

from trainshed.engines.kubernetes.api.access import ClusterAccess, ClusterSession
from trainshed.engines.kubernetes.api.errors import (
    UNAUTHORIZED_CODE,
    ApiAway,
    BrokenConnection,
    RejectedCertificate,
)
from trainshed.engines.kubernetes.api.requests import (
    OK,
    ApiAnswer,
    ApiRequest,
    ByteSource,
    RequestLimits,
)

#: Bytes that one read takes from a connection.
_READ_BYTES: Final = 64 * 1024


class Transport:
    """Carries requests over the current session of a cluster; for all threads."""

    def __init__(self, access: ClusterAccess, limits: RequestLimits, bytes_max: int) -> None:
        """``bytes_max``: limit of the body of an answer."""
        self._access = access
        self._limits = limits
        self._bytes_max = bytes_max

    def read_namespace(self) -> str:
        """Return the namespace of the configuration; empty: it has none.  Raises ApiAway."""
        return self._access.current()[0].namespace

    def send(self, request: ApiRequest) -> ApiAnswer:
        """Send a request and read the whole answer, also one with an error.  Raises ApiAway."""
        try:
            return self._read(*self._open(request, self._limits))
        except BrokenConnection:
            if request.method != "GET":  # the API server may have done what the request says
                raise
        return self._read(*self._open(request, self._limits))

    def open(self, request: ApiRequest, read_s: float) -> ApiAnswer | ByteSource:
        """Send a request; leave a successful answer's body unread.  Raises ApiAway.

        ``read_s``: time limit of each later read.
        """
        response, url = self._open(request, self._limits)
        if response.status != OK:
            return self._read(response, url)
        # a proxy that closes connections has taken the socket: then the usual limit stays
        connection = getattr(response.connection, "sock", None)
        if connection is not None:
            connection.settimeout(read_s)
        return _OpenAnswer(response, url, self._limits._replace(read_s=read_s))

    def close(self) -> None:
        """Close the connections that no request uses."""
        self._access.close()

    def _open(
        self, request: ApiRequest, limits: RequestLimits
    ) -> tuple[urllib3.BaseHTTPResponse, str]:
        """Send a request; once more with a new session if the API refused this one."""
        session, headers = self._access.current()
        try:
            response = _send(session, headers, request, limits)
        except RejectedCertificate:
            if not self._access.renew(session):
                raise
        else:
            if response.status != UNAUTHORIZED_CODE or not self._access.renew(session):
                return response, session.url
            response.close()
        session, headers = self._access.current()
        return _send(session, headers, request, limits), session.url

    def _read(self, response: urllib3.BaseHTTPResponse, url: str) -> ApiAnswer:
        try:
            body = _read_body(response, self._limits.whole_s, self._bytes_max)
        except (exceptions.HTTPError, OSError) as error:
            response.close()
            raise _explain(error, url, self._limits) from None
        response.release_conn()
        return ApiAnswer(response.status, body, response.headers.get("Retry-After"))


class _OpenAnswer:
    """A successful answer whose body is read while the API server writes it."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str, limits: RequestLimits) -> None:
        self._response = response
        self._url = url
        self._limits = limits

    def read(self) -> bytes:
        """Wait for the next bytes; empty at the end.  Raises ApiAway."""
        try:
            return self._response.read1(_READ_BYTES)
        except (exceptions.HTTPError, OSError) as error:
            raise _explain(error, self._url, self._limits) from None

    def interrupt(self) -> None:
        """End a read in another thread, and all later ones."""
        with suppress(ValueError, RuntimeError, OSError):  # the connection has ended already
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection; no thread may be reading."""
        self._response.close()


def _send(
    session: ClusterSession, headers: Mapping[str, str], request: ApiRequest, limits: RequestLimits
) -> urllib3.BaseHTTPResponse:
    content = {"Content-Type": request.content_type} if request.body is not None else {}
    query = f"?{urlencode(request.query)}" if request.query else ""
    try:
        return session.pool.request(
            request.method,
            f"{session.url}{request.path}{query}",
            body=request.body,
            headers={"Accept": "application/json", **content, **headers},
            timeout=urllib3.Timeout(connect=limits.connect_s, read=limits.read_s),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
    except (exceptions.HTTPError, OSError) as error:
        raise _explain(error, session.url, limits) from None


def _read_body(response: urllib3.BaseHTTPResponse, whole_s: float, bytes_max: int) -> bytes:
    deadline_s = time.monotonic() + whole_s
    body = bytearray()
    while chunk := response.read1(_READ_BYTES):
        body += chunk
        if len(body) > bytes_max:
            raise ApiAway(f"the API server's answer must have at most {bytes_max} bytes, got more")
        if time.monotonic() > deadline_s:
            raise ApiAway(f"the API server's answer did not end within {whole_s:g} s")
    return bytes(body)


def _explain(error: Exception, url: str, limits: RequestLimits) -> ApiAway:
    """Describe an error of urllib3 in one line, without the request, its query or its headers."""
    if isinstance(error, ApiAway):
        return error
    kind = next((kind for kind in _TEXTS if isinstance(error, kind)), Exception)
    text = _TEXTS.get(kind, "no answer from {server}")
    words = text.format(server=urlsplit(url).netloc, limits=limits)
    return _CLASSES.get(kind, ApiAway)(words + _quote_reason(error))


def _quote_reason(error: BaseException) -> str:
    """Return the reason that the operating system or OpenSSL gave; empty: neither gave one."""
    for _ in range(_CAUSES_MAX):
        if isinstance(error, OSError) and error.strerror:
            return f": {error.strerror}"
        inner = (*error.args, error.__cause__, error.__context__)
        cause = next((value for value in inner if isinstance(value, BaseException)), None)
        if cause is None:
            break
        error = cause
    return ""


_CAUSES_MAX: Final = 10
#: What an error of urllib3 means; the first class that fits counts.
_TEXTS: Final[Mapping[type[Exception], str]] = {
    exceptions.NameResolutionError: "cannot resolve the host name of {server}",
    exceptions.NewConnectionError: "cannot connect to {server}",
    exceptions.ConnectTimeoutError: "no connection to {server} within {limits.connect_s:g} s",
    exceptions.ProxyError: "cannot connect to {server} through the proxy",
    exceptions.SSLError: "TLS with {server} failed",
    exceptions.ReadTimeoutError: "no answer from {server} within {limits.read_s:g} s",
    exceptions.ProtocolError: "the connection to {server} ended",
    exceptions.IncompleteRead: "the connection to {server} ended",
}
_CLASSES: Final[Mapping[type[Exception], type[ApiAway]]] = {
    exceptions.SSLError: RejectedCertificate,
    exceptions.ProtocolError: BrokenConnection,
    exceptions.IncompleteRead: BrokenConnection,
}
