"""What is not Google's goes on, by the way that the job would have taken."""

import asyncio
import base64
import os
import socket

import pytest

from gateway.replica import WAIT_S_MAX
from trainshed.api.gateway.socket_users import socket_as, user_of
from trainshed.api.gateway.sockets import connect_target
from trainshed.api.gateway.tunnels import Tunnels, proxy_for

PROXY = {"https_proxy": "http://us%40er:secret@127.0.0.1:{port}", "no_proxy": "localhost,.inner"}


@pytest.mark.parametrize(
    ("host", "proxies", "proxy"),
    [
        ("example.com", {}, None),
        ("example.com", {"HTTPS_PROXY": "http://proxy:3128"}, ("proxy", 3128, "")),
        ("example.com", {"all_proxy": "proxy"}, ("proxy", 80, "")),
        ("a.inner", {"https_proxy": "http://proxy:1", "no_proxy": ".inner"}, None),
        ("example.com", {"https_proxy": "socks5://proxy:1"}, None),
    ],
)
def test_the_proxy_is_the_one_that_the_variables_name(host, proxies, proxy):
    assert proxy_for(host, proxies) == proxy


@pytest.mark.parametrize("status", [b"200 OK", b"407 Proxy Authentication Required"])
def test_a_tunnel_goes_through_the_machines_proxy(status):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        near, ours = tcp_pair()
        named = {name: text.format(port=proxy.getsockname()[1]) for name, text in PROXY.items()}

        def far():
            sock, _ = proxy.accept()
            with sock:
                head = sock.recv(1 << 16)
                sock.sendall(b"HTTP/1.1 " + status + b"\r\n\r\nearly")
                near.shutdown(socket.SHUT_WR)
                return head

        async def run():
            ours.setblocking(False)
            tunnels = Tunnels(named, refuse=lambda _address, _only_public: "")
            running = asyncio.create_task(tunnels.run(ours, "example.com", 443))
            async with asyncio.timeout(WAIT_S_MAX):
                return await asyncio.to_thread(far), await running

        with near, ours:
            head, refused = asyncio.run(run())
            credentials = base64.b64encode(b"us@er:secret")
            assert head.startswith(b"CONNECT example.com:443 HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic " + credentials in head
            if status.startswith(b"200"):
                assert near.recv(1 << 16).endswith(b"\r\n\r\nearly")
                assert refused is None
            else:
                assert "answered 407" in refused.why


OWN = [
    "localhost",
    "sub.localhost",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.01",
    "0",
    "0.0.0.0",  # noqa: S104 - refused, not bound
    "169.254.169.254",
    "0xa9fea9fe",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[fe80::1]",
    "[fec0::1]",
    "[fd00:ec2::254]",
]


@pytest.mark.parametrize("proxies", [{}, {"https_proxy": "http://proxy.invalid:1"}])
@pytest.mark.parametrize("dot", ["", "."])
@pytest.mark.parametrize("host", OWN)
def test_no_tunnel_leads_to_this_machine_its_links_or_its_platform(host, dot, proxies):
    target = connect_target(f"CONNECT {host}{dot}:80 HTTP/1.1\r\n\r\n".encode())
    if target is None:
        assert dot
        return
    assert tunnel_to(*target, proxies).status == 403


@pytest.mark.parametrize(
    "host", ["a" * 64, "x.example." + "a" * 64, "a." * 128, "a..b", ".a", "[]"]
)
def test_a_name_that_no_host_can_have_gets_no_tunnel(host):
    """The resolver raises a UnicodeError for it, and the connection stayed open for ever."""
    assert connect_target(f"CONNECT {host}:80 HTTP/1.1\r\n\r\n".encode()) is None


def test_no_tunnel_leads_to_an_address_of_the_machines_own_interfaces():
    own = address_towards("192.0.2.1")
    if own is None:
        pytest.skip(
            "this machine has a loopback interface only: run the tests where there is a network"
        )
    assert tunnel_to(own, 80, {}).status == 403
    assert tunnel_to(own, 80, {"https_proxy": "http://proxy.invalid:1"}).status == 403


def test_a_name_that_resolves_to_this_machine_gets_no_tunnel(monkeypatch):
    hosts = []

    def resolve(host, port, *_, **_named):
        hosts.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for proxies in ({}, {"https_proxy": "http://proxy.invalid:1"}):
        refused = tunnel_to("innocent.example", 80, proxies)
        assert (refused.status, "no tunnel may lead" in refused.why) == (403, True)
    assert hosts == ["innocent.example"] * 2


def test_a_tunnel_is_connected_to_the_address_that_was_judged(monkeypatch):
    """A name that resolves to another address the second time."""
    with socket.create_server(("127.0.0.1", 0)) as far:
        hosts = []

        def resolve(host, port, *_, **_named):
            hosts.append(host)
            assert len(hosts) == 1
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        addresses = []

        def judge(address, _only_public):
            addresses.append(str(address))
            return ""

        port = far.getsockname()[1]
        assert tunnel_to("twice.example", port, {}, refuse=judge, ends=True) is None
        assert (hosts, addresses) == (["twice.example"], ["127.0.0.1"])


def test_a_job_leaves_half_of_the_tunnels_to_others():
    with socket.create_server(("127.0.0.1", 0)) as far:
        port = far.getsockname()[1]

        async def run():
            loop = asyncio.get_running_loop()
            tunnels = Tunnels(most=4, refuse=lambda _address, _only_public: "")
            pairs = [tcp_pair() for _ in range(4)]
            for near, ours in pairs:
                near.setblocking(False)
                ours.setblocking(False)
            running = []
            answers = []
            for (near, ours), attempt in zip(pairs, "aaab", strict=True):
                running.append(loop.create_task(tunnels.run(ours, "127.0.0.1", port, attempt)))
                opened = loop.create_task(loop.sock_recv(near, 1 << 10))
                async with asyncio.timeout(WAIT_S_MAX):
                    await asyncio.wait((running[-1], opened), return_when="FIRST_COMPLETED")
                answers.append(opened.done() and opened.result()[:12])
                opened.cancel()
            refused = running[2].result()
            for near, _ours in pairs:
                near.close()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for _near, ours in pairs:
                ours.close()
            return answers, refused

        answers, refused = asyncio.run(run())
        opened = b"HTTP/1.1 200"
        assert answers == [opened, opened, False, opened]
        assert refused.status == 503
        assert "the job has 2 of the 2 open tunnels" in refused.why


def tcp_pair():
    """Two ends of a connection by loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.socket()
        near.connect(listener.getsockname())
        return near, listener.accept()[0]


def tunnel_to(host, port, proxies, *, ends=False, **named):
    """What a tunnel's client is refused with."""

    async def run():
        near, ours = tcp_pair()
        with near, ours:
            ours.setblocking(False)
            if ends:
                near.shutdown(socket.SHUT_WR)
            running = asyncio.create_task(Tunnels(proxies, **named).run(ours, host, port))
            async with asyncio.timeout(WAIT_S_MAX):
                if ends:
                    await asyncio.sleep(0)
                    await asyncio.to_thread(near.recv, 1 << 10)
                    near.close()
                    running.cancel()
                    return None
                return await running

    return asyncio.run(run())


def address_towards(host):
    """The address of this machine that packets to a host would have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        return probe.getsockname()[0]


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root gives a socket to another user: run the tests as root"
)
def test_a_tunnels_socket_belongs_to_the_user_who_asked_for_it():
    with socket_as(12345, socket.AF_INET, socket.SOCK_STREAM, 0) as theirs:
        assert os.fstat(theirs.fileno()).st_uid == 12345
    with socket.socket() as ours:
        assert os.fstat(ours.fileno()).st_uid == 0


def test_the_user_of_a_clients_socket_is_the_kernels_word():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert user_of(accepted) == os.geteuid()
