"""Clients of the fake API server, without the library that reads kubeconfigs."""

from typing import Any

import urllib3

from trainshed.engines.kubernetes.api.access import ClusterAccess, ClusterSession
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.requests import RequestLimits
from trainshed.engines.kubernetes.api.transport import Transport

LIMITS = RequestLimits(connect_s=10.0, read_s=60.0, whole_s=60.0)


def session_to(url: str, token: str = "", **more: Any) -> ClusterSession:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ClusterSession(url, urllib3.PoolManager(**more), lambda: headers, "")


def client_to(
    url: str, *, limits: RequestLimits = LIMITS, bytes_max: int = 1 << 20, pauses: Any = None
) -> Client:
    """A client that notes its pauses instead of waiting."""
    access = ClusterAccess(lambda: session_to(url))
    return Client(
        Transport(access, limits, bytes_max), pause=None if pauses is None else pauses.append
    )


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def client_with(load: Any, **more: Any) -> Client:
    """A client whose configuration this function loads."""
    return Client(Transport(ClusterAccess(load, **more), LIMITS, 1 << 20))
