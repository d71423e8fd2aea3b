"""The front of the gRPC edge: a held socket keeps its queue, and a client its address."""

import socket
import struct
from contextlib import suppress
from pathlib import Path

from trainshed.api.grpc_front import GrpcFront
from trainshed.service.ports.listening import BACKLOG

WAIT_S_MAX = 60
#: Where tcp_info has the length of a listening socket's queue (tcpi_sacked).
QUEUE_AT = 28


def queue_of(listener):
    return struct.unpack_from(
        "I", listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), QUEUE_AT
    )[0]


def test_the_queue_of_a_held_socket_is_as_long_as_before():
    """Connections wait in it while the server is away; asyncio made it 100."""
    longest = int(Path("/proc/sys/net/core/somaxconn").read_text())
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        front = GrpcFront(listener.dup(), 8)
        front.start(1)  # nothing listens there
        with socket.create_connection(listener.getsockname(), timeout=WAIT_S_MAX) as client:
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
            assert queue_of(listener) == min(BACKLOG, longest)
        front.stop()


def test_a_program_that_connects_to_grpcio_itself_has_no_other_client_s_address():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = GrpcFront(listener, 8)
        front._clients["127.0.0.1:4711"] = "10.1.2.3"
        assert front.address_of("ipv4:127.0.0.1:4711") == "10.1.2.3"
        assert front.address_of("ipv4:127.0.0.2:4711") == "127.0.0.2"
        front.stop()


def test_a_flood_of_connections_holds_no_more_descriptors_than_the_limit():
    """Each was accepted and led to grpcio, which closed it: three descriptors for a moment."""
    with (
        socket.create_server(("127.0.0.1", 0)) as far,
        socket.create_server(("127.0.0.1", 0)) as near,
    ):
        front = GrpcFront(near.dup(), 2)
        front.start(far.getsockname()[1])
        clients = [socket.create_connection(near.getsockname(), WAIT_S_MAX) for _ in range(5)]
        for client in clients[:4]:
            with suppress(ConnectionResetError):
                assert client.recv(1) == b"", "the newest alone stays, of callers without a token"
        clients[4].sendall(b"x")
        far.settimeout(WAIT_S_MAX)
        served = [far.accept()[0]]
        while not served[-1].recv(1):
            served.append(far.accept()[0])
        for connection in (*served, *clients):
            connection.close()
        front.stop()
