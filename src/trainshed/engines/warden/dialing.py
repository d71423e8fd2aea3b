"""How a warden reaches its launcher: by each address that it knows, again and again."""

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
#: The launcher gives up first, and says which wardens were missing.
_DIAL_S_MAX: Final = 1200.0


def dialed(env: Mapping[str, str]) -> socket.socket:
    """A connection to the launcher, both ends proven.  Raises OSError when there is none."""
    name, port, addresses, variable = env[LAUNCHER].split(";")
    theirs = [env.get(variable, ""), *addresses.split(",")]
    if name == socket.gethostname():
        theirs.insert(0, "127.0.0.1")
    places = [(host, int(port)) for host in dict.fromkeys(filter(None, theirs))]
    return _dial_any(places, env[SECRET])


def _dial_any(places: list[tuple[str, int]], secret: str) -> socket.socket:
    until_s, pause_s = time.monotonic() + _DIAL_S_MAX, _PAUSE_S
    while True:
        for place in places:
            try:
                return _connect(place, secret)
            except OSError as error:
                why = f"{place[0]}:{place[1]}: {error.strerror or error}"
        if time.monotonic() > until_s:
            raise OSError(f"no launcher was found; the last try was {why}")
        sys.stderr.write(f"{socket.gethostname()}: the launcher is not reached: {why}\n")
        time.sleep(pause_s)
        pause_s = min(_PAUSE_S_MAX, 2 * pause_s)


def _connect(place: tuple[str, int], secret: str) -> socket.socket:
    """Raises OSError where no program or another program listens."""
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        end.settimeout(PROVE_S)
        end.connect((place[0].encode(), place[1]))  # a text would have a codec imported
        _prove(end, secret)
    except BaseException:
        end.close()
        raise
    return end


def _prove(end: socket.socket, secret: str) -> None:
    until_s = time.monotonic() + PROVE_S
    theirs, ours = _receive(end, proof.NONCE, until_s), proof.new_nonce()
    end.sendall(ours + proof.of_warden(secret, theirs, ours))
    answer = _receive(end, proof.PROOF, until_s)
    if not is_same(answer, proof.of_launcher(secret, theirs, ours)):
        raise OSError("another program listens there")


def _receive(end: socket.socket, length: int, until_s: float) -> bytes:
    """So many bytes.  Raises OSError where they do not come in time."""
    buffer = b""
    while len(buffer) < length:
        end.settimeout(max(0.001, until_s - time.monotonic()))
        data = end.recv(length - len(buffer))
        if not data:
            raise OSError("another program listens there, or many call at once")
        buffer += data
    return buffer


def forget(env: "os._Environ[str]") -> None:
    """Take the secret from an environment that others are started with."""
    for name in (LAUNCHER, SECRET):
        env.pop(name, None)
