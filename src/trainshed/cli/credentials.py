"""``trainshed tokens create|list|revoke`` and ``trainshed keys add|list|remove``."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from trainshed.cli.administration import Administration, administration
from trainshed.cli.flags import Request
from trainshed.cli.terminal import note, out, out_json, table
from trainshed.model.faults import UsageFault
from trainshed.service.auth.signing_keys import from_key_file
from trainshed.service.server_files import write_file


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    if args.action == "add":
        args.document = _document(args)  # before a server or a database is asked
    with administration(args, os.environ) as found:
        _ACTIONS[args.noun, args.action](found, args)
    return 0


def _create_token(found: Administration, args: Any) -> None:
    if args.out and not args.out.absolute().parent.is_dir():
        raise UsageFault(f"--out {args.out}: there is no such folder")  # before the token is made
    asked = {"name": args.name, "project": args.project, "role": args.role}
    answer = found.create("tokens", {k: v for k, v in asked.items() if v is not None})
    if args.out:
        write_file(args.out, f"{answer.pop('token')}\n".encode())
        answer["file"] = str(args.out)
    if args.format == "json":
        out_json(answer)
        return
    note(f"token {answer['id']}: {answer['role']}, {_projects(answer['project'])}")
    out(answer["file"] if args.out else answer["token"])


def _list_tokens(found: Administration, args: Any) -> None:
    rows = found.listing("tokens")["tokens"]
    if args.format == "json":
        out_json(rows)
        return
    headers = ("ID", "NAME", "ROLE", "PROJECT", "CREATED", "REVOKED")
    out(table(headers, [_cells(row) for row in rows]))


def _cells(row: Any) -> tuple[str, ...]:
    revoked = "yes" if row["revoked"] else ""
    return row["id"], row["name"], row["role"], row["project"], row["createTime"][:19], revoked


def _revoke_token(found: Administration, args: Any) -> None:
    found.remove("tokens", args.id)
    if args.format == "json":
        out_json({"id": args.id, "revoked": True})
    else:
        out(f"token {args.id} is revoked")


def _projects(project: str) -> str:
    return "all projects" if project == "*" else f"project {project}"


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


def _add_key(found: Administration, args: Any) -> None:
    answer = found.create("keys", args.document)
    if args.format == "json":
        out_json(answer)
    else:
        out(f"key {answer['id']} of {answer['email']} is registered: {answer['role']}")


def _list_keys(found: Administration, args: Any) -> None:
    rows = found.listing("keys")["keys"]
    if args.format == "json":
        out_json(rows)
        return
    cells = [(r["id"], r["email"], r["role"], r["project"], r["createTime"][:19]) for r in rows]
    out(table(("ID", "EMAIL", "ROLE", "PROJECT", "CREATED"), cells))


def _remove_key(found: Administration, args: Any) -> None:
    found.remove("keys", args.id)
    if args.format == "json":
        out_json({"id": args.id, "removed": True})
    else:
        out(f"key {args.id} is removed")


_ACTIONS: Final[Mapping[tuple[str, str], Callable[[Administration, Any], None]]] = {
    ("tokens", "create"): _create_token,
    ("tokens", "list"): _list_tokens,
    ("tokens", "revoke"): _revoke_token,
    ("keys", "add"): _add_key,
    ("keys", "list"): _list_keys,
    ("keys", "remove"): _remove_key,
}
