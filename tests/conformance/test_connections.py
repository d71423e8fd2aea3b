"""Clients keep a connection between two polls, and the server does not close it under them."""

import contextlib
import time

import pytest

pytestmark = pytest.mark.slow

#: Between two looks of the Vertex SDK at a job (docs/sources/vertex.md 4).
POLL_S = 5


def test_a_connection_outlives_the_time_between_two_polls_of_the_sdk(server):
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok"
        first = connection.sock
        time.sleep(POLL_S + 1)
        connection.request("GET", "/healthz")  # one that was closed meanwhile is broken here
        assert connection.getresponse().read() == b"ok"
        assert connection.sock is first
