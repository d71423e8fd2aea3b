"""The program in each container of a probe: it answers with files in the folder of the probe.

The engine sends the text of this module to the bundled interpreter, so the module imports nothing
but the standard library.  The files measure the delays of the shared claim in both directions: the
container writes a greeting, the server answers it with a reply, and the container confirms it.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

#: Seconds to wait for the server's reply, and for the name of the other pod.
_REPLY_S = 120.0
_RESOLVE_S = 60.0
#: Seconds for which a container stays: the name of its pod is known only while the pod runs.
_STAY_S = 300.0
_LOOK_S = 0.05


def run(folder: str, name: str, peer: str) -> None:
    """Greet the server, wait for its reply, look up ``peer`` if it is a name, and confirm both.

    The server deletes the pod when it has all answers.
    """
    greeting = {"at_s": time.time(), "node": os.environ.get("TRAINSHED_NODE", "")}
    _write(folder, f"greeting-{name}.json", {**greeting, "user": os.geteuid()})
    replied_s = _await_reply(folder, name)
    address, resolve_s = _resolve(peer) if peer else ("", 0.0)
    answer = {"replied_s": replied_s, "address": address, "resolve_s": resolve_s}
    _write(folder, f"answer-{name}.json", answer)
    time.sleep(_STAY_S)


def _await_reply(folder: str, name: str) -> float | None:
    """Return the time when the reply was visible; None: it was not in time.

    Lists the folder, because on NFS a lookup may not find a new file.
    """
    until_s = time.monotonic() + _REPLY_S
    while time.monotonic() < until_s:
        if any(entry.name == f"reply-{name}" for entry in Path(folder).iterdir()):
            return time.time()
        time.sleep(_LOOK_S)
    return None


def _resolve(name: str) -> tuple[str, float]:
    """Return the address of a name and the seconds until it was known; empty: not in time."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < _RESOLVE_S:
        try:
            rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError:
            time.sleep(_LOOK_S)
        else:
            return str(rows[0][4][0]), time.monotonic() - began_s
    return "", time.monotonic() - began_s


def _write(folder: str, name: str, value: Mapping[str, object]) -> None:
    """Write a file that has its name only when it is complete."""
    part = Path(folder, f"{name}.part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.chmod(0o644)
    part.rename(Path(folder, name))


if __name__ == "__main__":
    run(*sys.argv[1:4])
