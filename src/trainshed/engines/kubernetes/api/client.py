"""The one class that sends requests to the API server of a cluster.

Paths, queries and bodies are those of the API: ``/apis/batch/v1/namespaces/ml/jobs``.
"""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.kubernetes.api.access import ClusterAccess
from trainshed.engines.kubernetes.api.errors import (
    BUSY_CODE,
    UNAVAILABLE_CODE,
    ApiAway,
    ClientClosed,
    read_error,
)
from trainshed.engines.kubernetes.api.requests import ApiAnswer, ApiRequest, Carrier, RequestLimits
from trainshed.engines.kubernetes.api.retries import parse_retry_after, plan_retry
from trainshed.engines.kubernetes.api.stream import WatchStream
from trainshed.model.faults import UsageFault
from trainshed.model.texts import install_command

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
#: Limit of the body of one answer: a page of 250 large pods has about 5 MB.
BYTES_MAX: Final = 64 * 1024 * 1024
#: Seconds for which a watch may stay open after its time limit has passed.
_MARGIN_S: Final = 10.0
#: Packages of the extra; without them there is no client.
_PACKAGES: Final = frozenset({"kubernetes", "urllib3"})


def connect(
    kubeconfig: str = "",
    context: str = "",
    *,
    keys_folder: str,
    limits: RequestLimits = RequestLimits(),  # noqa: B008 - a constant value
) -> "Client":
    """Make the client of a cluster; no request is sent, and no configuration is read, before use.

    ``kubeconfig``: path of the file; empty: the service account of this pod, or without one the
    files of the variable KUBECONFIG.  ``context``: empty: the current one.  ``keys_folder``: folder
    of this user alone for keys that the kubeconfig contains.  Raises UsageFault if the package is
    not installed.
    """
    try:
        from trainshed.engines.kubernetes.api import library, transport  # noqa: PLC0415  # costs 37 MB
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise UsageFault(
            f"a Kubernetes engine needs the package {error.name}; "
            f"install it with: {install_command('kubernetes')}"
        ) from None
    source = library.ConfigurationSource(kubeconfig, context, keys_folder)
    return Client(transport.Transport(ClusterAccess(source.load), limits, BYTES_MAX))


class Client:
    """Sends requests to the API server of one cluster; for all threads.

    Every method may raise ApiRefused, the API's own error, and ApiAway, if there is no answer.
    """

    def __init__(self, carrier: Carrier, *, pause: Callable[[float], object] | None = None) -> None:
        """``pause`` waits some seconds before a repetition; without it ``close`` ends a wait."""
        self._carrier = carrier
        self._closing = threading.Event()
        self._pause = pause or self._closing.wait
        self._lock = threading.Lock()
        self._streams: set[WatchStream] = set()

    @property
    def namespace(self) -> str:
        """The namespace of the service account or context; ``default`` if neither names one."""
        return self._carrier.read_namespace() or "default"

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Read an object or a list."""
        return self._send(ApiRequest("GET", path, query or {}))

    def post(
        self, path: str, body: Mapping[str, Any], query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Create an object and return it as the API server stored it."""
        return self._send(ApiRequest("POST", path, query or {}, _write(body)))

    def patch(
        self,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str] | None = None,
        *,
        content_type: str = MERGE_PATCH,
    ) -> dict[str, Any]:
        """Change an object and return it."""
        return self._send(ApiRequest("PATCH", path, query or {}, _write(body), content_type))

    def delete(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Delete an object; ``body``: the DeleteOptions.  Returns the object or a Status."""
        data = None if body is None else _write(body)
        return self._send(ApiRequest("DELETE", path, query or {}, data))

    def stream(self, path: str, query: Mapping[str, str], timeout_s: float) -> WatchStream:
        """Watch a list: iterate over its events for at most ``timeout_s`` seconds.

        The stream may be closed by any thread, and ``close`` of the client closes all streams.
        """
        words = {**query, "watch": "1", "timeoutSeconds": str(max(1, round(timeout_s)))}
        whole_s = timeout_s + _MARGIN_S
        request = ApiRequest("GET", path, words)
        self._refuse_if_closed()
        answer = self._carrier.open(request, whole_s)
        if isinstance(answer, ApiAnswer):
            raise _read_busy(answer) or read_error(answer.status, answer.body)
        stream = WatchStream(answer, whole_s, self._forget_stream)
        with self._lock:
            self._streams.add(stream)
        if self._closing.is_set():
            stream.close()
        return stream

    def close(self) -> None:
        """End all streams within 2 seconds; later requests raise ApiAway."""
        self._closing.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()
        self._carrier.close()

    def _forget_stream(self, stream: WatchStream) -> None:
        with self._lock:
            self._streams.discard(stream)

    def _refuse_if_closed(self) -> None:
        if self._closing.is_set():
            raise ClientClosed("the client of the cluster is closed")

    def _send(self, request: ApiRequest) -> dict[str, Any]:
        retries = 0
        while True:
            self._refuse_if_closed()
            answer = self._carrier.send(request)
            pause_s = plan_retry(answer.status, parse_retry_after(answer.retry_after), retries)
            if pause_s is None:
                return _read_answer(answer)
            retries += 1
            self._pause(pause_s)


def _write(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _read_answer(answer: ApiAnswer) -> dict[str, Any]:
    """Return the object of a successful answer.  Raises the error of another one."""
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - the codes of success
        raise _read_busy(answer) or read_error(answer.status, answer.body)
    with suppress(ValueError, RecursionError):
        value = json.loads(answer.body)
        if isinstance(value, dict):
            return value
    raise ApiAway("the API server's answer must be a JSON object, got another text")


def _read_busy(answer: ApiAnswer) -> ApiAway | None:
    """Describe an API server that is too busy; None: the answer says something else."""
    is_unavailable = answer.status == UNAVAILABLE_CODE and answer.retry_after is not None
    if answer.status != BUSY_CODE and not is_unavailable:
        return None
    return ApiAway(
        f"the API server is too busy (HTTP {answer.status}); the request may be repeated"
    )
