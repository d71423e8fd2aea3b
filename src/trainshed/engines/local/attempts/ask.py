"""Tells a supervisor on its socket, which need not answer."""

import json
import socket
from typing import Any, Final

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.supervise.control import short_path

_TELL_S: Final = 0.2


def tell(folder: AttemptFolder, question: dict[str, Any]) -> bool:
    """Have it read as soon as possible; False: nobody is there."""
    try:
        with _connected(folder, _TELL_S) as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
    except OSError:
        return False
    return True


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
