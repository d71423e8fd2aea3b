"""What is not Google's goes on, by the way that the job would have taken."""

import asyncio
import base64
import socket

import pytest

from gateway.replica import WAIT_S_MAX
from trainshed.api.gateway.tunnels import Tunnels, proxy_for

PROXY = {"https_proxy": "http://us%40er:secret@127.0.0.1:{port}", "no_proxy": "localhost,.inner"}


@pytest.mark.parametrize(
    ("host", "proxies", "found"),
    [
        ("example.com", {}, None),
        ("example.com", {"HTTPS_PROXY": "http://proxy:3128"}, ("proxy", 3128, "")),
        ("example.com", {"all_proxy": "proxy"}, ("proxy", 80, "")),
        ("a.inner", {"https_proxy": "http://proxy:1", "no_proxy": ".inner"}, None),
        ("example.com", {"https_proxy": "socks5://proxy:1"}, None),
    ],
)
def test_the_proxy_is_the_one_that_the_variables_name(host, proxies, found):
    assert proxy_for(host, proxies) == found


@pytest.mark.parametrize("status", [b"200 OK", b"407 Proxy Authentication Required"])
def test_a_tunnel_goes_through_the_machines_proxy(status):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        near, ours = socket.socketpair()
        named = {name: text.format(port=proxy.getsockname()[1]) for name, text in PROXY.items()}

        def far():
            found, _ = proxy.accept()
            with found:
                head = found.recv(1 << 16)
                found.sendall(b"HTTP/1.1 " + status + b"\r\n\r\nearly")
                near.shutdown(socket.SHUT_WR)
                return head

        async def run():
            ours.setblocking(False)
            running = asyncio.create_task(Tunnels(named).run(ours, "example.com", 443))
            async with asyncio.timeout(WAIT_S_MAX):
                return await asyncio.to_thread(far), await running

        with near, ours:
            head, refused = asyncio.run(run())
            shown = base64.b64encode(b"us@er:secret")
            assert head.startswith(b"CONNECT example.com:443 HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic " + shown in head
            if status.startswith(b"200"):
                assert near.recv(1 << 16).endswith(b"\r\n\r\nearly")
                assert refused == ""
            else:
                assert "answers with 407" in refused
