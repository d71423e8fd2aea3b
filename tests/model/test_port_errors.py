"""A program that cannot have a port is told so, with the port where the program names it."""

import socket

import pytest

from trainshed.model.advice import advice

NAMED = {
    "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 6379): address "
    "already in use": "6379",
    "OSError: [Errno 98] error while attempting to bind on address ('::1', 6379, 0, 0): address "
    "already in use": "6379",
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
    "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
    "already in use": "29500",
    "RuntimeError: The server socket has failed to listen on any local network address. The "
    "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use). The "
    "server socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already in use).": "29500",
    "E1128 01:54:39.957438   16267 add_port.cc:83] Failed to add port to server: No address added "
    "out of total 1 resolved for '[::]:37217'": "37217",
    "RuntimeError: Failed to bind to address 0.0.0.0:37217; set GRPC_VERBOSITY=debug environment "
    "variable to see detailed error message.": "37217",
    "ConnectionError: Ray is trying to start at 10.0.0.7:6379, but is already running at "
    "10.0.0.7:6379. Please specify a different port using the `--port` flag of `ray start` "
    "command.": "6379",
    "2026/11/28 02:00:00 listen tcp :8080: bind: address already in use": "8080",
    "Warning: Could not create server TCP listening socket *:6379: bind: Address already in "
    "use": "6379",
}
UNNAMED = (
    "OSError: [Errno 98] Address already in use",
    "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server",
    "Error: listen EADDRINUSE",
)
OTHERS = (
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "OSError: [Errno 99] Cannot assign requested address",
    "PermissionError: [Errno 13] Permission denied",
)


@pytest.mark.parametrize(("line", "port"), NAMED.items())
def test_a_port_in_use_is_named_with_what_helps(line, port):
    sentence = advice(["Traceback (most recent call last):", line])
    assert sentence.startswith(f"the port {port} is in use by another process: listen on port 0")
    assert "trainshed-network=replica" in sentence


@pytest.mark.parametrize("line", UNNAMED)
def test_a_program_that_does_not_name_its_port_gets_the_same_advice(line):
    assert advice([line]).startswith("a port is in use by another process: listen on port 0")


@pytest.mark.parametrize("line", OTHERS)
def test_other_errors_of_sockets_are_no_ports_in_use(line):
    assert advice(["Traceback (most recent call last):", line]) == ""


def test_a_port_that_another_error_followed_is_not_the_cause():
    assert advice([*UNNAMED[:1], "ValueError: no port is left"]) == ""


def test_what_python_says_here_is_known():
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="already in use") as caught:
            socket.create_server(("127.0.0.1", port))
    assert f"the port {port} is in use" in advice([f"OSError: {caught.value}"])
