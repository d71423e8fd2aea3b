"""``trainshed keys``: makes, registers, lists and removes keys of service accounts."""

import argparse
import json
import os
from pathlib import Path
from typing import Final

from trainshed.cli import flags
from trainshed.cli.admin.credentials import (
    Ask,
    add_grant_flags,
    check_out_file,
    connect,
    grant_of,
    print_list,
)
from trainshed.cli.connecting import locate_server
from trainshed.cli.terminal import note, print_result
from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed keys create --name ci --project demo --out ci.json
  trainshed keys add --key-file service-account.json --project demo
  trainshed keys add --email ci@demo.iam.gserviceaccount.com --public-key ci.pem
  trainshed keys list"""
#: The columns of the list.
_COLUMNS: Final = ("id", "email", "role", "project", "created")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Makes and registers keys of service accounts, whose clients then sign their own "
        "tokens: GOOGLE_APPLICATION_CREDENTIALS is all that they need. create makes a key that "
        "Google does not know; add registers an existing key. Private keys never leave this "
        "machine.",
        example=EXAMPLE,
        usage=f"{prog} create | add | list | remove ID [flags]",
    )
    parser.check = _check
    parser.add_argument("action", choices=("create", "add", "list", "remove"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="Key to remove")
    add = flags.adder(parser)
    add("--key-file FILE", "Key file of a service account (JSON)", type=Path)
    add("--name", "Name of the account that create makes (account)")
    add("--out FILE", "File for the key that create makes, with mode 600", type=Path)
    add("--email", "Address of the service account")
    add("--public-key FILE", "Its public key (PEM)", type=Path)
    add_grant_flags(parser)
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "remove") != (args.id is not None):
        parser.error("remove needs the ID of a key; the other actions take none")
    if args.action != "create" and (args.name or args.out):
        parser.error("--name and --out are for create")
    if args.action == "create" and (args.key_file or args.email or args.public_key):
        parser.error("create makes the key and the address itself; add registers existing ones")
    if args.action == "add" and not args.key_file and not (args.email and args.public_key):
        parser.error("add takes --key-file FILE, or --email EMAIL with --public-key FILE")
    if args.key_file and (args.email or args.public_key):
        parser.error("--key-file contains --email and --public-key; leave these out")


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    grant = grant_of(args) if args.action in ("create", "add") else {}
    if args.action == "add":  # read the key before calling a server or a database
        key = _read_key_file(args.key_file) if args.key_file else None
        grant |= key or _read_public_key(args.email, args.public_key)
    with connect(args, "keys") as ask:
        if args.action == "create":
            check_out_file(args.out)
            url = locate_server(args, os.environ).url
            content = _make_key_file(url, args.name or "account", grant["project"])
            _register(ask, content, grant, args.out, args.format)
        elif args.action == "add":
            _add(ask, grant, args.format)
        elif args.action == "list":
            print_list(ask("GET")["keys"], _COLUMNS, args.format)
        else:
            ask("DELETE", args.id)
            print_result(args.format, {"id": args.id, "removed": True}, f"key {args.id} is removed")
    return 0


def _make_key_file(url: str | None, name: str, project: str) -> Json:
    """Return the key file of a new account, which names the server at ``url``."""
    from trainshed.model.refusals import Refusal
    from trainshed.service.auth import signing_keys

    if url is None:
        raise UsageFault("a key file names its server; give the address with --url ADDRESS")
    try:
        return signing_keys.new_key_file(url, name, project)
    except Refusal as refusal:
        raise UsageFault(f"--{refusal.message}") from refusal


def _register(ask: Ask, content: Json, grant: Json, out: Path | None, form: str) -> None:
    """Register the public key; the private key stays on this machine."""
    from trainshed.files.server_files import write_file
    from trainshed.service.auth import key_files

    key = ask("POST", key_files.from_key_file(content) | grant)
    text = json.dumps(content, indent=2)
    if out:
        write_file(out, f"{text}\n".encode())
    if form == "text":
        note(f"key {key['id']} of {key['email']} is registered: {key['role']}")
    document = key | ({"file": str(out)} if out else {"keyFile": content})
    print_result(form, document, str(out) if out else text)


def _add(ask: Ask, document: Json, form: str) -> None:
    from trainshed.service.auth import signing_keys

    key = ask("POST", document)
    note(signing_keys.REPLAY.format(email=key["email"]))
    print_result(form, key, f"key {key['id']} of {key['email']} is registered: {key['role']}")


def _read_key_file(path: Path) -> Json:
    from trainshed.service.auth import key_files

    try:
        return key_files.from_key_file(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key file {path}: {error}") from error


def _read_public_key(email: str, path: Path) -> Json:
    try:
        pem = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key {path}: {error}") from error
    if "PRIVATE KEY" in pem:
        raise UsageFault(f"{path} is a private key; give the public key instead")
    return {"email": email, "publicKey": pem}
