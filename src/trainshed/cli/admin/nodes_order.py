"""``trainshed nodes drain|maintain|resume``: changes the state of a node, and lists its jobs."""

import argparse
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.submitted import EXIT_INTERRUPTED
from trainshed.cli.terminal import note, out, out_json
from trainshed.client.faults import Json, Unreachable
from trainshed.model.durations import FORM, duration_of, seconds_of

if TYPE_CHECKING:
    from trainshed.client.http import Server

#: The longest notice.
NOTICE_S_MAX: Final = 86_400.0

_SUMMARY: Final = {
    "drain": "Stops the placing of new replicas on a node. Running replicas continue; with "
    "--notice they get notice as with maintain.",
    "maintain": "Takes a node out of service: it accepts no new replicas, its running replicas get "
    "notice, and the server restarts their jobs on other nodes or when the node is back, under "
    "the same replica names. This does not count against the restarts of a job.",
    "resume": "Allows replicas on a node again; the server starts the jobs that wait for it.",
}
_EXAMPLE: Final = {
    "drain": """\
  trainshed nodes drain gpu1
  trainshed nodes drain gpu1 --notice 2m --wait""",
    "maintain": """\
  trainshed nodes maintain gpu1 --wait
  trainshed nodes maintain gpu1 --notice 5m""",
    "resume": """\
  trainshed nodes resume gpu1""",
}


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    order = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog, summary=_SUMMARY[order], example=_EXAMPLE[order], usage=f"{prog} NODE [flags]"
    )
    parser.set_defaults(order=order, notice=None, wait=False)
    parser.add_argument(
        "node", metavar="NODE", help="Name of the node, as trainshed nodes shows it"
    )
    if order != "resume":
        _add_notice(parser, default="120s" if order == "maintain" else "none: replicas continue")
    flags.add_client_flags(parser)
    return parser


def _add_notice(parser: flags.Parser, default: str) -> None:
    add = flags.adder(parser)
    add(
        "--notice DURATION",
        "Time that replicas get between the notice and SIGKILL, such as 120s, 2m or 1h; "
        f"default: {default}",
        type=_notice,
    )
    add(
        "--wait",
        "Wait until no replica is on the node; Ctrl-C leaves the order as it is",
        action="store_true",
    )


def _notice(text: str) -> float:
    try:
        notice_s = seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if notice_s > NOTICE_S_MAX:
        raise argparse.ArgumentTypeError(f"must be {FORM}, at most a day, got {text!r}")
    return notice_s


#: Seconds between two reads of the node, and seconds to wait for a server that is down.
POLL_S: Final = 0.5
RETURN_S_MAX: Final = 60.0

_PATH: Final = "/trainshed/v1/nodes"


def run(request: flags.Request) -> int:
    """Send the order to the server, print its effect, and wait with ``--wait``."""
    args = request.args
    context = context_of(args)
    document = {} if args.notice is None else {"notice": duration_of(args.notice)}
    path = f"{_PATH}/{quote(args.node, safe='')}:{args.order}"
    response = context.server.call("POST", path, document)
    if args.format == "text":
        _report(context, args.node, args.order, response)
    exit_code = _wait(context.server, args.node, response) if args.wait else 0
    if args.format == "json":
        out_json(response)
    return exit_code


def _report(context: ServerContext, node: str, order: str, response: Json) -> None:
    out(response["message"])
    if order == "resume":
        return
    for job in response["jobs"]:
        out(f"  {job}")
    note(f"undo this with: {context.command(f'nodes resume {node}')}")


def _wait(server: "Server", name: str, response: Json) -> int:
    """Wait until the node has no replicas; ``response`` has its last state."""
    reported = -1
    try:
        while remaining := response["node"]["replicas"]:
            if remaining != reported:
                note(f"{remaining} replica{'s' if remaining > 1 else ''} left on {name}")
            reported = remaining
            time.sleep(POLL_S)
            response["node"] = _node(server, name, response["node"])
    except KeyboardInterrupt:
        note(f"{name} stays {response['node']['state']}; no longer waiting for its replicas")
        return EXIT_INTERRUPTED
    note(f"no replica is left on {name}")
    return 0


def _node(server: "Server", name: str, last: Json) -> Json:
    """Return the node's current state; a node that is no longer reported has no replicas."""
    deadline = time.monotonic() + RETURN_S_MAX
    while True:
        try:
            nodes = server.call("GET", _PATH)["nodes"]
        except Unreachable:  # the server may be restarting: it keeps the order
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
            continue
        return next((node for node in nodes if node["name"] == name), {**last, "replicas": 0})
