"""``trainshed nodes drain|maintain|resume``: the order, and what becomes of the jobs."""

import argparse
import time
from typing import Final
from urllib.parse import quote

from trainshed.cli.connecting import continued, place_of
from trainshed.cli.flags import Request
from trainshed.cli.notes import note
from trainshed.cli.submitted import EXIT_INTERRUPTED
from trainshed.cli.terminal import out, out_json
from trainshed.client.faults import Json, Unreachable
from trainshed.client.http import Server
from trainshed.model.durations import duration_of

#: How often the node is looked at, and how long a server that has gone is waited for.
LOOK_S: Final = 0.5
RETURN_S_MAX: Final = 60.0

_PATH: Final = "/trainshed/v1/nodes"


def run(request: Request) -> int:
    """Give the order, tell what happens, and wait if that was asked."""
    args = request.args
    server = place_of(args).server
    document = {} if args.notice is None else {"notice": duration_of(args.notice)}
    path = f"{_PATH}/{quote(args.node, safe='')}:{args.order}"
    found = server.call("POST", path, document)
    if args.format == "text":
        _tell(args, found)
    ended = _wait(args, server, found) if args.wait else 0
    if args.format == "json":
        out_json(found)
    return ended


def _tell(args: argparse.Namespace, found: Json) -> None:
    out(found["message"])
    for job in found["jobs"] if args.order != "resume" else ():
        out(f"  {job}")
    if args.order != "resume":
        note(f"take it back: {continued(args, f'nodes resume {args.node}')}")


def _wait(args: argparse.Namespace, server: Server, found: Json) -> int:
    """Follow the node until nothing is on it; ``found`` holds it as it was seen last."""
    told = -1
    try:
        while left := found["node"]["replicas"]:
            if left != told:
                note(f"{left} replica{'s' if left > 1 else ''} left on {args.node}")
            told = left
            time.sleep(LOOK_S)
            found["node"] = _node(server, args.node, found["node"])
    except KeyboardInterrupt:
        note(f"{args.node} stays {found['node']['state']}; its replicas are not waited for")
        return EXIT_INTERRUPTED
    note(f"no replica is left on {args.node}")
    return 0


def _node(server: Server, name: str, last: Json) -> Json:
    """The node as it is now; one that its engine reports no more has nothing on it."""
    deadline = time.monotonic() + RETURN_S_MAX
    while True:
        try:
            nodes = server.call("GET", _PATH)["nodes"]
        except Unreachable:  # it may be restarted meanwhile: the order is kept
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)
            continue
        return next((node for node in nodes if node["name"] == name), {**last, "replicas": 0})
