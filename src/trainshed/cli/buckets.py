"""``trainshed buckets``, by the storage API's own routes."""

import argparse

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import answer, note, out, out_json, table
from trainshed.client.collections import pages
from trainshed.storage.buckets import SCHEME

EXAMPLE = """\
  trainshed buckets create my-bucket
  trainshed buckets list"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Makes and lists buckets: folders of the server that gs:// names mean.",
        example=EXAMPLE,
        usage=f"{prog} create NAME | list [flags]",
    )
    parser.check = _check
    parser.add_argument("action", choices=("create", "list"), metavar="ACTION")
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name, with or without gs://")
    flags.add_client_flags(parser)
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "create") != bool(args.name):
        parser.error("create takes the NAME of a bucket, and list takes none")


_PATH = "/storage/v1/b"


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    {"create": _create, "list": _list}[args.action](args, place_of(args))
    return 0


def _create(args: argparse.Namespace, place: ServerPlace) -> None:
    name = args.name.removeprefix(SCHEME).rstrip("/")
    found = place.server.call("POST", _PATH, {"name": name}, {"project": place.project})
    answer(args, found, f"{SCHEME}{found['name']} is there, for project {place.project}")


def _list(args: argparse.Namespace, place: ServerPlace) -> None:
    rows = list(pages(place.server, _PATH, "items", {"project": place.project}))
    if args.format == "json":
        out_json(rows)
    elif rows:
        cells = [(f"{SCHEME}{row['name']}", date_of(row.get("timeCreated"))) for row in rows]
        out(table(("BUCKET", "CREATED"), cells))
    else:
        note(f"project {place.project} has no bucket; trainshed buckets create NAME makes one")
