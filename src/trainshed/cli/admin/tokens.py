"""``trainshed tokens``: makes, lists and revokes tokens."""

import argparse
from pathlib import Path
from typing import Any, Final

from trainshed.cli import flags
from trainshed.cli.admin.credentials import (
    Ask,
    add_grant_flags,
    check_out_file,
    connect,
    grant_of,
    print_list,
)
from trainshed.cli.terminal import note, print_result

EXAMPLE = """\
  trainshed tokens create --project demo --role submitter --name laptop
  trainshed tokens create --all-projects --role viewer --expires 30d --out viewer-token
  trainshed tokens list --format json"""
#: The columns of the list.
_COLUMNS: Final = ("id", "name", "role", "project", "created", "expires", "last used", "revoked")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Makes, lists and revokes tokens, through the running server, or else in its "
        "database. A token's text is shown only when it is made.",
        example=EXAMPLE,
        usage=f"{prog} create | list | revoke ID [flags]",
    )
    parser.check = _check
    parser.add_argument("action", choices=("create", "list", "revoke"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="Token to revoke")
    add = flags.adder(parser)
    add("--name", "Name of the token in logs and lists")
    add("--expires TIME", "Its lifetime, such as 30d; default: unlimited")
    add("--out FILE", "Write the token to a file of mode 600 instead", type=Path)
    add_grant_flags(parser)
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "revoke") != (args.id is not None):
        parser.error("revoke needs the ID of a token; the other actions take none")
    if args.expires and args.action != "create":
        parser.error("--expires is for create")


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    grant = grant_of(args, "name", "expires") if args.action == "create" else {}
    with connect(args, "tokens") as ask:
        if args.action == "create":
            _create(ask, grant, args.out, args.format)
        elif args.action == "list":
            print_list(ask("GET")["tokens"], _COLUMNS, args.format)
        else:
            ask("DELETE", args.id)
            print_result(
                args.format, {"id": args.id, "revoked": True}, f"token {args.id} is revoked"
            )
    return 0


def _create(ask: Ask, grant: dict[str, Any], out: Path | None, form: str) -> None:
    from trainshed.files.server_files import write_file

    check_out_file(out)
    token = ask("POST", grant)
    if out:
        write_file(out, f"{token.pop('token')}\n".encode())
        token["file"] = str(out)
    if form == "text":
        project = token["project"]
        scope = "all projects" if project == "*" else f"project {project}"
        expiry = f", until {token['expireTime'][:19]} UTC" if "expireTime" in token else ""
        note(f"token {token['id']}: {token['role']}, {scope}{expiry}")
    print_result(form, token, token["file"] if out else token["token"])
