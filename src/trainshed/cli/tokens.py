"""``trainshed tokens create|list|revoke``."""

import os
from typing import Any

from trainshed.cli.desks import Desk, desk
from trainshed.cli.flags import Request
from trainshed.cli.notes import note
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.faults import UsageFault
from trainshed.service.server_files import write_file


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    with desk(args, os.environ) as found:
        {"create": _create, "list": _list, "revoke": _revoke}[args.action](found, args)
    return 0


def _create(found: Desk, args: Any) -> None:
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


def _list(found: Desk, args: Any) -> None:
    rows = found.listing("tokens")["tokens"]
    if args.format == "json":
        out_json(rows)
        return
    headers = ("ID", "NAME", "ROLE", "PROJECT", "CREATED", "REVOKED")
    out(table(headers, [_cells(row) for row in rows]))


def _cells(row: Any) -> tuple[str, ...]:
    revoked = "yes" if row["revoked"] else ""
    return row["id"], row["name"], row["role"], row["project"], row["createTime"][:19], revoked


def _revoke(found: Desk, args: Any) -> None:
    found.remove("tokens", args.id)
    if args.format == "json":
        out_json({"id": args.id, "revoked": True})
    else:
        out(f"token {args.id} is revoked")


def _projects(project: str) -> str:
    return "all projects" if project == "*" else f"project {project}"
