"""``trainshed buckets``, over the storage API's routes; adopt over a native route."""

import argparse
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import note, out, out_json, print_result, table
from trainshed.client.collections import pages, path_of
from trainshed.client.faults import Json
from trainshed.model.access import ALL_BUCKETS
from trainshed.storage.buckets import SCHEME
from trainshed.workbench.client_settings import bucket_address

EXAMPLE = """\
  trainshed buckets create my-bucket
  trainshed buckets list
  trainshed buckets adopt put-there-by-hand --project my-project
  trainshed buckets token my-bucket --expires 12h --read-only
  trainshed buckets token --all"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Makes and lists buckets: the server's folders behind gs:// names. "
        "With adopt an administrator assigns a folder without a project to a project. Storage "
        "clients cannot send a header: for them, token makes a token for one bucket, or with --all "
        "for every bucket that you may use, and prints an address that contains this token, for "
        "STORAGE_EMULATOR_HOST.",
        example=EXAMPLE,
        usage=f"{prog} create NAME | list | adopt NAME | token (NAME | --all | --renew ID) [flags]",
    )
    parser.check = _check
    actions = ("create", "list", "adopt", "token")
    parser.add_argument("action", type=_action, choices=actions, metavar="ACTION")
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name, with or without gs://")
    parser.add_argument("--all", action="store_true", help="A token for all your buckets")
    parser.add_argument("--expires", metavar="TIME", help="Lifetime of the token, up to 12h (1h)")
    parser.add_argument("--read-only", action="store_true", help="The token allows reads only")
    parser.add_argument("--renew", metavar="ID", help="Extend the lifetime of this token, from now")
    flags.add_client_flags(parser)
    return parser


def _action(word: str) -> str:
    """Return the action for another tool's word.  Raises ArgumentTypeError for deleting."""
    if word in ("rm", "rb", "delete"):
        raise argparse.ArgumentTypeError(
            "storage clients delete buckets: trainshed run -- gcloud storage buckets delete "
            "gs://NAME"
        )
    return {"ls": "list", "mb": "create"}.get(word, word)


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if args.action == "token":
        if [bool(args.name), args.all, bool(args.renew)].count(True) != 1:
            parser.error("token needs the NAME of a bucket, or --all, or --renew ID")
        if args.renew and args.read_only:
            parser.error("--renew cannot change the buckets or the access of a token")
        return
    if args.expires or args.read_only or args.renew or args.all:
        parser.error("--all, --expires, --read-only and --renew are for token")
    if (args.action == "list") == bool(args.name):
        parser.error("create and adopt need the NAME of a bucket; list takes none")


_PATH = "/storage/v1/b"


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    context = context_of(args)
    name = str(args.name).removeprefix(SCHEME).rstrip("/") if args.name else ""
    if args.action == "create":
        bucket = context.server.call("POST", _PATH, {"name": name}, {"project": context.project})
        text = f"{SCHEME}{bucket['name']} was created in project {context.project}"
        print_result(args.format, bucket, text)
    elif args.action == "adopt":
        path = f"/trainshed/v1/buckets/{quote(name, safe='')}:adopt"
        bucket = context.server.call("POST", path, {"project": context.project})
        text = f"{SCHEME}{bucket['name']} belongs to project {bucket['project']}"
        print_result(args.format, bucket, text)
    elif args.action == "list":
        _list(context, args.format)
    elif args.renew:
        _renew_token(context, args.renew, args.expires, args.format)
    else:
        lifetime = {"expires": args.expires} if args.expires else {}
        body = {"bucket": ALL_BUCKETS if args.all else name, "readOnly": args.read_only}
        _make_token(context, {**body, **lifetime}, args.format)
    return 0


def _tokens_path(context: ServerContext) -> str:
    return path_of("trainshed", "v1", "projects", context.project, "bucketTokens")


def _renew_token(context: ServerContext, token_id: str, lifetime: str | None, form: str) -> None:
    body = {"expires": lifetime} if lifetime else {}
    path = f"{_tokens_path(context)}/{quote(token_id, safe='')}:renew"
    token = context.server.call("POST", path, body)
    print_result(form, token, f"token {token['id']} is valid until {date_of(token['expireTime'])}")


def _make_token(context: ServerContext, body: Json, form: str) -> None:
    grant = context.server.call("POST", _tokens_path(context), body)
    token = {**grant, "address": bucket_address(context.server.url, grant["token"])}
    if form == "text":
        bucket = body["bucket"]
        buckets = "all your buckets" if bucket == ALL_BUCKETS else f"{SCHEME}{bucket}"
        note(f"token {token['id']} for {buckets}, until {date_of(token['expireTime'])}")
    print_result(form, token, token["address"])


def _list(context: ServerContext, form: str) -> None:
    rows = list(pages(context.server, _PATH, "items", {"project": context.project}))
    if form == "json":
        out_json(rows)
    elif rows:
        cells = [(f"{SCHEME}{row['name']}", date_of(row.get("timeCreated"))) for row in rows]
        out(table(("BUCKET", "CREATED"), cells))
    else:
        note(f"project {context.project} has no bucket; trainshed buckets create NAME makes one")
