"""What strangers hold of the gRPC edge: no thread, and few connections, for a short time."""

import socket
import threading
from contextlib import suppress

import grpc

from api.grpc_calls import JOBS, GrpcClient, grpc_client
from api.support import WAIT_S_MAX, surroundings
from api.test_grpc import GET, NAME, ROWS
from trainshed.api.connections import ConnectionLimits, Times
from trainshed.api.grpc_server import THREADS

FEW = ConnectionLimits(connections=16, unauthenticated=8, per_address=4)


def test_calls_without_a_token_and_without_a_message_hold_no_thread(tmp_path):
    GET.answer = {"name": NAME}
    over = threading.Event()

    def no_messages():
        over.wait(WAIT_S_MAX)
        yield from ()

    with grpc_client(ROWS, surroundings(ROWS), tmp_path) as edge:
        call = edge.channel.stream_unary(f"/{JOBS}/GetCustomJob")
        nobody = [("authorization", "Bearer nobody")]
        half = [call.future(no_messages(), metadata=nobody) for _ in range(2 * THREADS)]
        codes = {future.exception(timeout=WAIT_S_MAX).code() for future in half}
        assert codes == {grpc.StatusCode.UNAUTHENTICATED}
        assert edge.call(f"{JOBS}/GetCustomJob", {"name": NAME})["name"] == NAME
        over.set()


def test_a_handshake_that_does_not_end_is_ended(tmp_path):
    times = Times(head_s=0.3)
    with grpc_client(ROWS, surroundings(ROWS), tmp_path, limits=FEW, times=times) as edge:
        address = ("127.0.0.1", edge.port)
        with socket.create_connection(address, timeout=WAIT_S_MAX) as stranger:
            assert stranger.recv(1) == b""


def test_strangers_who_hold_all_connections_keep_no_caller_out(tmp_path):
    """A thousand idle connections of one address had all that come later reset."""
    GET.answer = {"name": NAME}
    with grpc_client(ROWS, surroundings(ROWS), tmp_path, limits=FEW) as edge:
        assert edge.call(f"{JOBS}/GetCustomJob", {"name": NAME})["name"] == NAME
        strangers = [
            socket.create_connection(("127.0.0.1", edge.port), timeout=WAIT_S_MAX)
            for _ in range(2 * FEW.connections)
        ]
        for oldest in strangers[: FEW.connections]:
            with suppress(ConnectionResetError):
                assert oldest.recv(1) == b"", "more are open than there may be"
        credentials = grpc.ssl_channel_credentials(edge.tls.files.ca.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        address = f"127.0.0.1:{edge.port}"
        with grpc.secure_channel(address, credentials, options) as channel:
            newcomer = GrpcClient(channel, ROWS, edge.port, edge.tls)
            for client in (newcomer, edge):
                assert client.call(f"{JOBS}/GetCustomJob", {"name": NAME})["name"] == NAME
        for stranger in strangers:
            stranger.close()
