"""``trainshed buckets``, by the storage API's own routes; adopt, by a native one."""

import argparse
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import answer, note, out, out_json, table
from trainshed.client.collections import pages
from trainshed.storage.buckets import SCHEME

EXAMPLE = """\
  trainshed buckets create my-bucket
  trainshed buckets list
  trainshed buckets adopt put-there-by-hand --project my-project"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Makes and lists buckets: folders of the server that gs:// names mean. "
        "Administrators give a folder that is nobody's to a project with adopt.",
        example=EXAMPLE,
        usage=f"{prog} create NAME | list | adopt NAME [flags]",
    )
    parser.check = _check
    parser.add_argument("action", choices=("create", "list", "adopt"), metavar="ACTION")
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name, with or without gs://")
    flags.add_client_flags(parser)
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "list") == bool(args.name):
        parser.error("create and adopt take the NAME of a bucket, and list takes none")


_PATH = "/storage/v1/b"


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    {"create": _create, "list": _list, "adopt": _adopt}[args.action](args, place_of(args))
    return 0


def _create(args: argparse.Namespace, place: ServerPlace) -> None:
    body = {"name": _name(args)}
    found = place.server.call("POST", _PATH, body, {"project": place.project})
    answer(args, found, f"{SCHEME}{found['name']} is there, for project {place.project}")


def _adopt(args: argparse.Namespace, place: ServerPlace) -> None:
    path = f"/trainshed/v1/buckets/{quote(_name(args), safe='')}:adopt"
    found = place.server.call("POST", path, {"project": place.project})
    answer(args, found, f"{SCHEME}{found['name']} belongs to project {found['project']}")


def _name(args: argparse.Namespace) -> str:
    return str(args.name).removeprefix(SCHEME).rstrip("/")


def _list(args: argparse.Namespace, place: ServerPlace) -> None:
    rows = list(pages(place.server, _PATH, "items", {"project": place.project}))
    if args.format == "json":
        out_json(rows)
    elif rows:
        cells = [(f"{SCHEME}{row['name']}", date_of(row.get("timeCreated"))) for row in rows]
        out(table(("BUCKET", "CREATED"), cells))
    else:
        note(f"project {place.project} has no bucket; trainshed buckets create NAME makes one")
