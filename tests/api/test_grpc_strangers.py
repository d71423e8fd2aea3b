"""What strangers hold of the gRPC edge: no thread, and few connections, for a short time."""

import socket
import ssl
import threading

import grpc
import pytest

from api.grpc_calls import JOBS, grpc_client
from api.support import WAIT_S_MAX, surroundings
from api.test_grpc import GET, NAME, ROWS
from trainshed.api.connections import Limits, Times
from trainshed.api.grpc_server import THREADS

FEW = Limits(connections=16, unauthenticated=8, per_address=4)


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
        codes = {each.exception(timeout=WAIT_S_MAX).code() for each in half}
        assert codes == {grpc.StatusCode.UNAUTHENTICATED}
        assert edge.call(f"{JOBS}/GetCustomJob", {"name": NAME})["name"] == NAME
        over.set()


def test_a_handshake_that_does_not_end_is_ended(tmp_path):
    times = Times(head_s=0.3)
    with grpc_client(ROWS, surroundings(ROWS), tmp_path, limits=FEW, times=times) as edge:
        address = ("127.0.0.1", edge.port)
        with socket.create_connection(address, timeout=WAIT_S_MAX) as stranger:
            assert stranger.recv(1) == b""


def test_only_so_many_connections_are_taken(tmp_path):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with grpc_client(ROWS, surroundings(ROWS), tmp_path, limits=FEW) as edge:
        address = ("127.0.0.1", edge.port)
        strangers = [
            socket.create_connection(address, timeout=WAIT_S_MAX)
            for _ in range(FEW.connections // 4)
        ]
        with (
            socket.create_connection(address, timeout=WAIT_S_MAX) as another,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(another)
        for each in strangers:
            each.close()
