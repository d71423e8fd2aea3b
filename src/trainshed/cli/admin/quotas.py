"""``trainshed quotas list``."""

from typing import Any

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import note, print_result, table
from trainshed.client.collections import path_of
from trainshed.client.faults import Json

EXAMPLE = """\
  trainshed quotas list
  trainshed quotas list --all-projects --format json"""

_HEADERS = ("PROJECT", "REGION", "ACCELERATOR", "LIMIT", "IN USE", "FREE", "JOBS")
#: The server's word in a rule that counts each project or region separately.
_EACH = "*"


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists how many accelerators of each type a project may use at once in each "
        "region, and how many its jobs use now. Jobs over a quota wait. Administrators set "
        "quotas with [[quota]] in the server's config.toml; accelerators without a quota "
        "are listed while they are in use.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    add = flags.adder(parser)
    add("--all-projects", "Quotas of all projects that the token may read", action="store_true")
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """List the quotas."""
    args = request.args
    context = context_of(args)
    project = "-" if args.all_projects else context.project
    path = path_of("trainshed", "v1", "projects", project, "quotas")
    quotas = context.server.call("GET", path)["quotas"]
    if not quotas:
        note("no accelerator has a quota and none is in use; [[quota]] in config.toml sets one")
    print_result(args.format, quotas, table(_HEADERS, map(_row, quotas)) if quotas else "")
    return 0


def _row(quota: Json) -> tuple[Any, ...]:
    limit = quota.get("limit")
    return (
        _scope_name(quota["project"]), _scope_name(quota["region"]), quota["accelerator"],
        "none" if limit is None else limit, quota["inUse"],
        "" if limit is None else max(limit - quota["inUse"], 0), quota["jobs"],
    )  # fmt: skip


def _scope_name(name: str) -> str:
    return "each" if name == _EACH else name or "any"
