"""A replica of beta: what it has in memory, in its folder, and on a port is nobody else's.

It does what the tests have it do, by files in its bucket: call the gateway, open a tunnel, bind to
a port.  So they see whether a neighbour keeps it from that.
"""

import contextlib
import http.client
import json
import os
import pathlib
import socket
import sys
import threading
import time

WAIT_S_MAX = 60
BUCKET = pathlib.Path(os.environ["TRAINSHED_BUCKETS"], "beta-bucket")
GATEWAY = os.environ.get("GCE_METADATA_HOST", "")


def show_port():
    """Answer at a port of all its addresses."""
    listener = socket.create_server(("", 0))
    sys.stdout.write(f"port {listener.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer_client, args=(client,), daemon=True).start()


def answer_client(client):
    """Say whose port it is, and wait until the other end closes."""
    with client, contextlib.suppress(OSError):
        client.sendall(b"the port of beta")
        while client.recv(1 << 12):
            pass


def call():
    """Ask the metadata server for the project."""
    if not GATEWAY:
        return 0
    client = http.client.HTTPConnection(GATEWAY, timeout=WAIT_S_MAX)
    path = "/computeMetadata/v1/project/project-id"
    client.request("GET", path, headers={"Metadata-Flavor": "Google"})
    return client.getresponse().status


def tunnel():
    """Ask for a tunnel; the first line of the answer."""
    if not GATEWAY:
        return "no gateway"
    host, _, port = GATEWAY.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S_MAX) as client:
        client.sendall(b"CONNECT 198.51.100.8:443 HTTP/1.1\r\n\r\n")
        return client.recv(1 << 12).split(b"\r\n")[0].decode()


def bind(port):
    socket.create_server(("", int(port))).close()
    return "bound"


ORDERS = {"call": call, "tunnel": tunnel, "bind": bind}


def obey(words):
    name, *arguments = words.split()
    try:
        return ORDERS[name](*arguments)
    except (OSError, http.client.HTTPException) as error:
        return str(error)


def main():
    work = pathlib.Path(os.environ["TRAINSHED_NOTICE_FILE"]).parents[1] / "work"
    (work / "secret").write_text("the secret of beta")
    threading.Thread(target=show_port, daemon=True).start()
    done = 0
    while True:
        order = BUCKET / f"order-{done}"
        if order.exists():
            (BUCKET / "answer.draft").write_text(json.dumps(obey(order.read_text())))
            (BUCKET / "answer.draft").rename(BUCKET / f"answer-{done}")
            done += 1
        time.sleep(0.05)


main()
