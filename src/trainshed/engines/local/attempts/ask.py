"""Asks a supervisor on its socket; whoever does not answer in time has not answered."""

import json
import socket
from typing import Any, Final

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.supervise.control import short_path

_TELL_S: Final = 0.2
_READ_BYTES: Final = 1 << 16


def tell(folder: AttemptFolder, question: dict[str, Any]) -> bool:
    """Have a question read as soon as possible, without waiting for the answer; False: nobody."""
    try:
        with _connected(folder, _TELL_S) as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
    except OSError:
        return False
    return True


def ask(folder: AttemptFolder, question: dict[str, Any], *, timeout_s: float) -> Any:
    """The answer to a question.  Raises OSError when there is none, or ValueError."""
    with _connected(folder, timeout_s) as connection:
        connection.sendall(json.dumps(question).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            part = connection.recv(_READ_BYTES)
            if not part:
                raise ConnectionError("the supervisor has hung up")
            data += part
    return json.loads(data)


def _connected(folder: AttemptFolder, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with short_path(folder.control) as path:
            connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
