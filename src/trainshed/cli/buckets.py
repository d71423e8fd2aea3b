"""``trainshed buckets``, by the storage API's own routes."""

import argparse
from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.flags import Request
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import note, out, out_json, table
from trainshed.client.collections import pages
from trainshed.storage.buckets import SCHEME

EXAMPLE = """\
  trainshed buckets create my-bucket
  trainshed buckets list"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = flags.Parser(
        prog,
        summary="Makes and lists buckets: folders of the server that gs:// names mean.",
        example=EXAMPLE,
        usage=f"{prog} create NAME | list [flags]",
    )
    parser.add_argument("action", choices=("create", "list"), metavar="ACTION")
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name, with or without gs://")
    add_client_flags(parser)
    args = parser.read(argv)
    if (args.action == "create") != bool(args.name):
        parser.error("create takes the NAME of a bucket, and list takes none")
    return flags.Request(args)


_PATH = "/storage/v1/b"


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    {"create": _create, "list": _list}[args.action](args, place_of(args))
    return 0


def _create(args: argparse.Namespace, place: ServerPlace) -> None:
    name = args.name.removeprefix(SCHEME).rstrip("/")
    found = place.server.call("POST", _PATH, {"name": name}, {"project": place.project})
    if args.format == "json":
        out_json(found)
    else:
        out(f"{SCHEME}{found['name']} is there, for project {place.project}")


def _list(args: argparse.Namespace, place: ServerPlace) -> None:
    rows = list(pages(place.server, _PATH, "items", {"project": place.project}))
    if args.format == "json":
        out_json(rows)
    elif rows:
        cells = [(f"{SCHEME}{row['name']}", date_of(row.get("timeCreated"))) for row in rows]
        out(table(("BUCKET", "CREATED"), cells))
    else:
        note(f"project {place.project} has no bucket; trainshed buckets create NAME makes one")
