"""Connects a warden to its launcher: tries each known address until one connection works."""

import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Final

from trainshed.engines.processes.secret import is_same
from trainshed.engines.warden import proof
from trainshed.engines.warden.protocol import LAUNCHER, PROVE_S, SECRET

_PAUSE_S: Final = 0.2
_PAUSE_S_MAX: Final = 5.0
#: The launcher gives up first, and its message names the missing wardens.
_DIAL_S_MAX: Final = 1200.0


def dial(env: Mapping[str, str]) -> socket.socket:
    """Connect to the launcher; both ends prove that they know the secret.

    Raises OSError if no address of the launcher answers within 20 minutes.
    """
    name, port, addresses, variable = env[LAUNCHER].split(";")
    hosts = [env.get(variable, ""), *addresses.split(",")]
    if name == socket.gethostname():
        hosts.insert(0, "127.0.0.1")
    endpoints = [(host, int(port)) for host in dict.fromkeys(filter(None, hosts))]
    return _dial_any(endpoints, env[SECRET])


def _dial_any(endpoints: list[tuple[str, int]], secret: str) -> socket.socket:
    until_s, pause_s = time.monotonic() + _DIAL_S_MAX, _PAUSE_S
    while True:
        for endpoint in endpoints:
            try:
                return _connect(endpoint, secret)
            except OSError as error:
                why = f"{endpoint[0]}:{endpoint[1]}: {error.strerror or error}"
        if time.monotonic() > until_s:
            raise OSError(f"cannot connect to the launcher within {_DIAL_S_MAX:g} s: {why}")
        sys.stderr.write(
            f"{socket.gethostname()}: cannot connect to the launcher: {why}; retrying in "
            f"{pause_s:g} s\n"
        )
        time.sleep(pause_s)
        pause_s = min(_PAUSE_S_MAX, 2 * pause_s)


def _connect(endpoint: tuple[str, int], secret: str) -> socket.socket:
    """Raises OSError if no program or another program listens at the endpoint."""
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        end.settimeout(PROVE_S)
        end.connect((endpoint[0].encode(), endpoint[1]))  # with a text, Python imports a codec
        _prove(end, secret)
    except BaseException:
        end.close()
        raise
    return end


def _prove(end: socket.socket, secret: str) -> None:
    until_s = time.monotonic() + PROVE_S
    launcher_nonce, own_nonce = _receive(end, proof.NONCE, until_s), proof.new_nonce()
    end.sendall(own_nonce + proof.of_warden(secret, launcher_nonce, own_nonce))
    answer = _receive(end, proof.PROOF, until_s)
    if not is_same(answer, proof.of_launcher(secret, launcher_nonce, own_nonce)):
        raise OSError("another program listens there")


def _receive(end: socket.socket, length: int, until_s: float) -> bytes:
    """Receive ``length`` bytes.  Raises OSError if they do not arrive in time."""
    buffer = b""
    while len(buffer) < length:
        end.settimeout(max(0.001, until_s - time.monotonic()))
        data = end.recv(length - len(buffer))
        if not data:
            raise OSError("another program listens there, or many wardens connect at once")
        buffer += data
    return buffer


def remove_secret(env: "os._Environ[str]") -> None:
    """Remove the secret from an environment, so that started programs do not get it."""
    for name in (LAUNCHER, SECRET):
        env.pop(name, None)
