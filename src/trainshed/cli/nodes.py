"""``trainshed nodes``."""

from collections.abc import Sequence
from typing import Any

from trainshed.cli import flags
from trainshed.cli.connecting import place_of
from trainshed.cli.node_gpus import gpu_table
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import answer, table
from trainshed.client.faults import Json

EXAMPLE = """\
  trainshed nodes
  trainshed nodes list --format json"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Lists the machines of the fleet as they were last seen, and their GPUs: who has "
        "each and what it does now, where the server that answers sees it. Administrators take a "
        "machine out of service with nodes drain and nodes maintain, and back with nodes resume.",
        example=EXAMPLE,
        usage=f"{prog} [list] [flags]",
    )
    parser.add_argument("action", nargs="?", choices=("list",), metavar="list", help="the default")
    flags.add_client_flags(parser)
    return parser


_HEADERS = (
    "NODE", "STATE", "NOTICE", "ENGINE", "POLICY", "REGION", "VCPUS", "MEMORY GB", "GPUS", "SLOTS",
    "REPLICAS", "ISOLATION", "SEEN", "LEFTOVERS",
)  # fmt: skip


def run(request: flags.Request) -> int:
    """List the nodes."""
    found = place_of(request.args).server.call("GET", "/trainshed/v1/nodes")
    nodes, engines = found["nodes"], found.get("engines", [])
    tables = (table(_HEADERS, map(_row, nodes)), gpu_table(nodes), _engines(engines))
    answer(request.args, nodes, "\n\n".join(filter(None, tables)))
    return 0


def _engines(engines: Sequence[Json]) -> str:
    """How the engines do; of one that is well there is nothing to say."""
    if len(engines) < 2 and not any(each["health"] for each in engines):  # noqa: PLR2004 - several
        return ""
    rows = (
        (each["name"], each["health"] or "well", date_of(each["since"]), each["message"])
        for each in engines
    )
    return table(("ENGINE", "HEALTH", "SINCE", "WHY"), rows)


def _row(node: Json) -> tuple[Any, ...]:
    gpus = ", ".join(f"{count} {kind}" for kind, count in node["gpus"].items())
    return (
        node["name"], node["state"], node.get("notice", ""), node["engine"],
        node["policy"], node["region"] or "any", node["vcpus"], round(node["memoryGb"], 1),
        gpus or "none", node["slots"], node["replicas"],
        node.get("isolation") or "unknown", date_of(node["seen"]),
        node.get("leftovers") or "unknown",
    )  # fmt: skip
