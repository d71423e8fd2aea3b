"""Find all replicas of a cluster through TF_CONFIG, and hear from each that it is who it should be.

Every replica answers with its own name on its own port.  The primary asks them all, itself too, and
ends the job; the others answer until they are stopped.  Standard library only.
"""

import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from typing import Any

PATIENCE_S = 120
POLL_S = 0.1
QUESTION = b"who are you?\n"
PRIMARY = ("chief", "master")


def main() -> None:
    """Say who this is, answer to that name, and let the primary count the others."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the primary's end is everybody's
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster") or {}, config.get("task") or {}
    kind, index = task.get("type", "master"), int(task.get("index", 0))
    members = [(role, i) for role in cluster for i in range(len(cluster[role]))]
    print(f"{kind} {index} in a cluster of {len(members)}", flush=True)
    if (kind, index) in members:
        answer(cluster[kind][index], f"{kind} {index}")
    if kind in PRIMARY:
        for role, i in members:
            ask(cluster[role][i], f"{role} {i}")
        print(f"{len(members)} replicas answered", flush=True)
    else:
        threading.Event().wait()


def answer(address: str, name: str) -> None:
    """Answer to a name, in the background."""
    server = Server(place(address), Answer)
    server.name = name
    threading.Thread(target=server.serve_forever, daemon=True).start()


class Server(socketserver.ThreadingTCPServer):
    """Listens on this replica's own address."""

    allow_reuse_address = True
    daemon_threads = True
    name = ""


class Answer(socketserver.StreamRequestHandler):
    """One question, one answer."""

    def handle(self) -> None:
        """Tell the name of this replica."""
        server: Any = self.server
        if self.rfile.readline() == QUESTION:
            self.wfile.write(f"{server.name}\n".encode())


def ask(address: str, name: str) -> None:
    """Ask a replica for its name until it answers; exit with 1 if it never does, or is another."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            reply = talk(address)
        except OSError as error:  # it has not started yet
            reply = str(error)
        if reply == name:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"{address} should be {name}; it said: {reply}")
        time.sleep(POLL_S)


def talk(address: str) -> str:
    """Ask once."""
    with socket.create_connection(place(address), timeout=10) as connection:
        connection.sendall(QUESTION)
        with connection.makefile() as lines:
            return lines.readline().strip()


def place(address: str) -> tuple[str, int]:
    """Split ``host:port``."""
    host, _, port = address.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
