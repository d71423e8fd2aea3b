"""``trainshed keys add|list|remove``."""

import json
import os
from typing import Any

from trainshed.cli.desks import Desk, desk
from trainshed.cli.flags import Request
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.faults import UsageFault
from trainshed.service.signing_keys import from_key_file


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    document = _document(args) if args.action == "add" else {}
    with desk(args, os.environ) as found:
        if args.action == "add":
            _add(found, args, document)
        elif args.action == "list":
            _list(found, args)
        else:
            _remove(found, args)
    return 0


def _document(args: Any) -> dict[str, Any]:
    found = _of_key_file(args.key_file) if args.key_file else _of_public_key(args)
    asked = {"project": args.project, "role": args.role}
    return found | {name: value for name, value in asked.items() if value is not None}


def _of_key_file(path: Any) -> dict[str, Any]:
    try:
        return from_key_file(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key file {path}: {error}") from error


def _of_public_key(args: Any) -> dict[str, Any]:
    try:
        pem = args.public_key.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key {args.public_key}: {error}") from error
    if "PRIVATE KEY" in pem:
        raise UsageFault(f"{args.public_key} is a private key; nobody but its owner may have it")
    return {"email": args.email, "publicKey": pem}


def _add(found: Desk, args: Any, document: dict[str, Any]) -> None:
    answer = found.create("keys", document)
    if args.format == "json":
        out_json(answer)
    else:
        out(f"key {answer['id']} of {answer['email']} is registered: {answer['role']}")


def _list(found: Desk, args: Any) -> None:
    rows = found.listing("keys")["keys"]
    if args.format == "json":
        out_json(rows)
        return
    cells = [(r["id"], r["email"], r["role"], r["project"], r["createTime"][:19]) for r in rows]
    out(table(("ID", "EMAIL", "ROLE", "PROJECT", "CREATED"), cells))


def _remove(found: Desk, args: Any) -> None:
    found.remove("keys", args.id)
    if args.format == "json":
        out_json({"id": args.id, "removed": True})
    else:
        out(f"key {args.id} is removed")
