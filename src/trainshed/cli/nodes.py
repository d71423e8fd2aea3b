"""``trainshed nodes``."""

from typing import Any

from trainshed.cli.connecting import place_of
from trainshed.cli.flags import Request
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import out, out_json, table
from trainshed.client.faults import Json

_HEADERS = (
    "NODE", "STATE", "NOTICE", "ENGINE", "POLICY", "REGION", "VCPUS", "MEMORY GB", "GPUS", "SLOTS",
    "REPLICAS", "SEEN",
)  # fmt: skip


def run(request: Request) -> int:
    """List the nodes."""
    nodes = place_of(request.args).server.call("GET", "/trainshed/v1/nodes")["nodes"]
    if request.args.format == "json":
        out_json(nodes)
    else:
        out(table(_HEADERS, map(_row, nodes)))
    return 0


def _row(node: Json) -> tuple[Any, ...]:
    gpus = ", ".join(f"{count} {kind}" for kind, count in node["gpus"].items())
    return (
        node["name"], node["state"], node.get("notice", ""), node["engine"],
        node["policy"], node["region"] or "any", node["vcpus"], round(node["memoryGb"], 1),
        gpus or "none", node["slots"], node["replicas"], date_of(node["seen"]),
    )  # fmt: skip
