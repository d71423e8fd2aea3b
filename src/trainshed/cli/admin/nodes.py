"""``trainshed nodes``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainshed.cli import flags
from trainshed.cli.admin.node_gpus import gpu_table, short_gpu_table, short_type
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import print_result, shorten, table
from trainshed.client.faults import Json

EXAMPLE = """\
  trainshed nodes
  trainshed nodes --wide
  trainshed nodes list --format json"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists the machines of the fleet as last reported, and their GPUs: the job that "
        "has each GPU and its current use, where the server can read it. The tables fit 80 "
        "columns; --wide shows all. Administrators take a machine out of service with nodes "
        "drain and nodes maintain, and back with nodes resume.",
        example=EXAMPLE,
        usage=f"{prog} [list] [flags]",
    )
    parser.add_argument("action", nargs="?", choices=("list",), metavar="list", help="the default")
    add = flags.adder(parser)
    add("--wide", "All columns, and names at their full length", action="store_true")
    flags.add_client_flags(parser)
    return parser


_HEADERS: Final = ("NODE", "STATE", "VCPUS", "GB", "GPUS", "REPLICAS")
_WIDE_HEADERS: Final = (
    "NODE", "STATE", "NOTICE", "ENGINE", "POLICY", "REGION", "VCPUS", "MEMORY GB", "GPUS", "SLOTS",
    "REPLICAS", "ISOLATION", "SEEN", "LEFTOVERS", "NETWORK",
)  # fmt: skip

#: The width of names in 80 columns, beside the other columns at their widest.
NODE_WIDTH: Final = 20
GPUS_WIDTH: Final = 22


def run(request: flags.Request) -> int:
    """List the nodes."""
    args = request.args
    response = context_of(args).server.call("GET", "/trainshed/v1/nodes")
    nodes, engines = response["nodes"], response.get("engines", [])
    tables = (_wide if args.wide else _short)(nodes)
    print_result(args.format, nodes, "\n\n".join(filter(None, (*tables, _engines(engines)))))
    return 0


def _wide(nodes: Sequence[Json]) -> tuple[str, ...]:
    return table(_WIDE_HEADERS, map(_wide_row, nodes)), gpu_table(nodes)


def _short(nodes: Sequence[Json]) -> tuple[str, ...]:
    rows = table(_HEADERS, map(_row, nodes))
    return "\n".join((rows, *_remarks(nodes))), short_gpu_table(nodes)


def _remarks(nodes: Sequence[Json]) -> Iterator[str]:
    """Yield the engines if there are several, and the notice of nodes in maintenance."""
    engines = dict.fromkeys(node["engine"] for node in nodes)
    for engine in engines if len(engines) > 1 else ():
        names = ", ".join(node["name"] for node in nodes if node["engine"] == engine)
        yield f"engine {engine}: {names}"
    for node in nodes:
        if node.get("notice"):
            yield f"{node['name']}: replicas get {node['notice']} notice"


def _engines(engines: Sequence[Json]) -> str:
    """Return the health of the engines; empty for a single healthy engine."""
    if len(engines) < 2 and not any(engine["health"] for engine in engines):  # noqa: PLR2004 - several
        return ""
    rows = (
        (engine["name"], engine["health"] or "well", date_of(engine["since"]), engine["message"])
        for engine in engines
    )
    return table(("ENGINE", "HEALTH", "SINCE", "WHY"), rows)


def _row(node: Json) -> tuple[Any, ...]:
    gpus = ", ".join(f"{count} {short_type(kind)}" for kind, count in node["gpus"].items())
    return (
        shorten(node["name"], NODE_WIDTH), node["state"], node["vcpus"],
        round(node["memoryGigabytes"]), shorten(gpus, GPUS_WIDTH) or "none",
        f"{node['replicas']}/{node['slots']}",
    )  # fmt: skip


def _wide_row(node: Json) -> tuple[Any, ...]:
    gpus = ", ".join(f"{count} {kind}" for kind, count in node["gpus"].items())
    return (
        node["name"], node["state"], node.get("notice", ""), node["engine"],
        node["policy"], node["region"] or "any", node["vcpus"], round(node["memoryGigabytes"], 1),
        gpus or "none", node["slots"], node["replicas"],
        node.get("isolation") or "unknown", date_of(node["seen"]),
        node.get("leftovers") or "unknown", node.get("network") or "unknown",
    )  # fmt: skip
