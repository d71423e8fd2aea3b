"""A server of few descriptors, and more strangers that never finish a request than it has."""

import resource
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from e2e.support import ml_job, serving, submit
from server_process import TRAINSHED

DESCRIPTORS = 1024
HALF_HEADS = 1100
FEW = ("/bin/sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$0" "$@"', TRAINSHED)
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127."


@pytest.fixture
def enough_descriptors():
    """Here the other ends are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * HALF_HEADS:
        pytest.skip(f"this process may open {hard} files of {2 * HALF_HEADS}: raise ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HALF_HEADS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("enough_descriptors")
def test_a_caller_with_a_token_is_served_among_more_half_heads_than_descriptors(tmp_path):
    with serving(tmp_path / "data", program=FEW) as server, ExitStack() as stack:
        place = urlsplit(server.url)
        for _ in range(HALF_HEADS):
            address = (place.hostname, place.port)
            stack.enter_context(socket.create_connection(address, timeout=60)).sendall(HALF)
        assert server.is_healthy()
        name = submit(server, ml_job("among_strangers"))
        server.wait_for(f"/v1/{name}", {"SUCCEEDED"})
        assert "have shown no valid token" in server.output()
