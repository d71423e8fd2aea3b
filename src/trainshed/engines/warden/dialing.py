"""Connects a warden to its launcher: tries each known address until one connection works.

An address may be a name that has no address yet: a cluster may start a warden before its launcher.
"""

import os
import sys
import time
from _socket import AF_INET, SOCK_STREAM, gethostname, socket  # see protocol
from collections.abc import Callable, Mapping
from typing import Final

from trainshed.engines.processes.secret import is_same
from trainshed.engines.warden import proof
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.engines.warden.protocol import PROVE_S

_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 1.0
#: A pause's share of all earlier ones: most launchers start in the same second.
_PAUSE_SHARE: Final = 0.25
#: Seconds of silence: a cluster starts wardens and launcher in any order, so refusals are usual.
_SILENT_S: Final = 2.0
#: Seconds until a warden gives up.  The launcher gives up earlier, with a message that names the
#: wardens that have not connected.
DIAL_S: Final = 1200.0


def dial(
    env: Mapping[str, str],
    within_s: float = DIAL_S,
    pause: Callable[[float], object] = time.sleep,
) -> socket:
    """Connect to the launcher; both ends prove that they know the secret.

    ``pause`` waits for some seconds; its errors end the attempts to connect.  Raises OSError if no
    address of the launcher answers within ``within_s``, KeyError or ValueError if the variables for
    wardens are missing or malformed.
    """
    name, port, addresses, variable = env[LAUNCHER].split(";")
    hosts = [env.get(variable, ""), *addresses.split(",")]
    if name == gethostname():
        hosts.insert(0, "127.0.0.1")
    endpoints = [(host, int(port)) for host in dict.fromkeys(filter(None, hosts))]
    return _dial_any(endpoints, env[SECRET], within_s, pause)


def _dial_any(
    endpoints: list[tuple[str, int]],
    secret: str,
    within_s: float,
    pause: Callable[[float], object],
) -> socket:
    until_s, paused_s, written_reason = time.monotonic() + within_s, 0.0, ""
    while True:
        for endpoint in endpoints:
            try:
                return _connect(endpoint, secret)
            except OSError as error:
                reason = f"{endpoint[0]}:{endpoint[1]}: {error.strerror or error}"
        if time.monotonic() > until_s:
            raise OSError(f"cannot connect to the launcher within {within_s:g} s: {reason}")
        if paused_s > _SILENT_S and reason != written_reason:
            written_reason = reason
            sys.stderr.write(
                f"{gethostname()}: cannot connect to the launcher: {reason}; retrying for "
                f"{within_s:g} s\n"
            )
        pause_s = min(_PAUSE_S_MAX, max(_PAUSE_S, _PAUSE_SHARE * paused_s))
        pause(pause_s)
        paused_s += pause_s


def _connect(endpoint: tuple[str, int], secret: str) -> socket:
    """Connect and exchange proofs.  Raises OSError if no launcher of the attempt listens."""
    connection = socket(AF_INET, SOCK_STREAM)
    try:
        connection.settimeout(PROVE_S)
        connection.connect(
            (endpoint[0].encode(), endpoint[1])
        )  # for a str, Python would import a codec
        _prove(connection, secret)
    except BaseException:
        connection.close()
        raise
    return connection


def _prove(connection: socket, secret: str) -> None:
    until_s = time.monotonic() + PROVE_S
    launcher_nonce, own_nonce = _receive(connection, proof.NONCE, until_s), proof.new_nonce()
    connection.sendall(own_nonce + proof.prove_warden(secret, launcher_nonce, own_nonce))
    answer = _receive(connection, proof.PROOF, until_s)
    if not is_same(answer, proof.prove_launcher(secret, launcher_nonce, own_nonce)):
        raise OSError("another program listens at this address: it does not know the secret")


def _receive(connection: socket, length: int, until_s: float) -> bytes:
    """Receive ``length`` bytes.  Raises OSError if they do not arrive in time."""
    buffer = b""
    while len(buffer) < length:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        data = connection.recv(length - len(buffer))
        if not data:
            raise OSError("another program listens at this address, or too many wardens connect")
        buffer += data
    return buffer


def remove_secret(env: "os._Environ[str]") -> None:
    """Remove the secret from an environment, so that started programs do not get it."""
    for name in (LAUNCHER, SECRET):
        env.pop(name, None)
