"""Keeps the loaded configuration of a cluster, and loads it again when credentials are refused.

The official client renews some credentials by time alone, and others never: the token file of a
kubeconfig, and the token of a plug-in that names no end.  Loading everything again after a 401
covers all of them.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from trainshed.engines.kubernetes.api.errors import ApiAway

if TYPE_CHECKING:
    import urllib3

T = TypeVar("T")

#: Seconds for loading: a kubeconfig may name a plug-in, a program that may wait for its network.
LOAD_S_MAX: Final = 30.0
#: Seconds for which the headers with credentials are used again.
HEADERS_S: Final = 10.0
#: Seconds between two loads after refused credentials: a plug-in costs a process.
RENEW_S_MIN: Final = 5.0


class ClusterSession(NamedTuple):
    """One loaded configuration of a cluster."""

    url: str
    """Address of the API server, without a slash at the end."""
    pool: "urllib3.PoolManager"
    """Connections with the cluster's CA, client certificate and proxy."""
    make_headers: Callable[[], Mapping[str, str]]
    """Returns the headers with credentials; reads files and may run a plug-in."""
    namespace: str
    """The namespace of the service account or of the kubeconfig's context; empty: none is set."""


class ClusterAccess:
    """The current session of a cluster, for all threads."""

    def __init__(
        self,
        load: Callable[[], ClusterSession],
        *,
        now_s: Callable[[], float] = time.monotonic,
        load_s_max: float = LOAD_S_MAX,
    ) -> None:
        """``load`` reads the configuration of the cluster; it may raise ApiAway."""
        self._load = load
        self._now_s = now_s
        self._load_s_max = load_s_max
        self._lock = threading.Lock()
        self._session: ClusterSession | None = None
        self._renewed_s = float("-inf")
        self._headers: Mapping[str, str] = {}
        self._headers_s = float("-inf")
        self._worker: threading.Thread | None = None

    def current(self) -> tuple[ClusterSession, Mapping[str, str]]:
        """Return the session and the headers with its credentials.  Raises ApiAway."""
        with self._lock:
            session = self._session or self._replace_session()
            if self._now_s() - self._headers_s >= HEADERS_S:
                self._headers = self._call_within_limit(session.make_headers)
                self._headers_s = self._now_s()
            return session, self._headers

    def renew(self, refused: ClusterSession) -> bool:
        """Load the configuration again after the API refused a session.  Raises ApiAway.

        Returns whether there is a newer session to try.
        """
        with self._lock:
            if self._session is not refused:
                return True
            if self._now_s() - self._renewed_s < RENEW_S_MIN:
                return False
            self._replace_session()
            return True

    def close(self) -> None:
        """Close the connections that no request uses."""
        with self._lock:
            if self._session is not None:
                self._session.pool.clear()

    def _replace_session(self) -> ClusterSession:
        self._renewed_s = self._now_s()
        self._session = self._call_within_limit(self._load)
        self._headers_s = float("-inf")
        return self._session

    def _call_within_limit(self, call: Callable[[], T]) -> T:
        """Call in a thread of its own: the library sets no limit to the time of a plug-in."""
        if self._worker is not None and self._worker.is_alive():
            raise ApiAway("cannot get credentials: the plug-in of the kubeconfig does not end")
        results: list[T] = []
        errors: list[Exception] = []
        self._worker = threading.Thread(
            target=_call_and_note,
            args=(call, results, errors),
            name="kubernetes-access",
            daemon=True,
        )
        self._worker.start()
        self._worker.join(self._load_s_max)
        if results:
            return results[0]
        if errors and isinstance(errors[0], ApiAway):
            raise errors[0]
        # the text of another error may quote the kubeconfig, and so a token
        reason = type(errors[0]).__name__ if errors else f"no answer within {self._load_s_max:g} s"
        raise ApiAway(f"cannot get credentials: {reason}")


def _call_and_note(call: Callable[[], T], results: list[T], errors: list[Exception]) -> None:
    try:
        results.append(call())
    except Exception as error:  # noqa: BLE001 - the waiting thread raises it
        errors.append(error)
