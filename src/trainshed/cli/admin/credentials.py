"""Helpers of ``trainshed tokens`` and ``trainshed keys``.

The commands call the running server, or, if none runs, change its database.  While a server runs, a
SQLite database belongs to its process, so the commands always try the server first.  Both ways give
the same JSON.
"""

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainshed.cli import flags
from trainshed.cli.connecting import (
    PROJECT_VARIABLES,
    URL_VARIABLE,
    LocatedServer,
    locate_server,
    shell_project,
    url_of,
)
from trainshed.cli.terminal import note, out, out_json, table
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.model.access import ALL_PROJECTS
from trainshed.model.faults import UsageFault

if TYPE_CHECKING:
    from trainshed.client.http import Server
    from trainshed.config import Settings
    from trainshed.store.opening import Store

ANSWER_S_MAX: Final = 10.0

#: Sends a POST, GET or DELETE with an optional document or id.  Raises UsageFault.
Ask = Callable[..., Json]

_TIMES: Final = {"created": "createTime", "expires": "expireTime", "last used": "lastUseTime"}


def add_grant_flags(parser: flags.Parser) -> None:
    """Add the flags for the project and the role of a credential, and for the server."""
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--project", metavar="ID", help=f"One project (default: the shell's {PROJECT_VARIABLES[0]})"
    )
    scope.add_argument("--all-projects", action="store_true", help="All projects, also future ones")
    add = flags.adder(parser)
    add(
        "--role",
        "viewer reads; submitter also runs jobs; admin also makes tokens (submitter)",
        choices=("viewer", "submitter", "admin"),
    )
    flags.add_server_flags(parser)
    add(
        "--database URL",
        "The server's database, for when no server runs; default: as in config.toml",
    )
    flags.add_format(parser)


def grant_of(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the fields of a new credential: its project, and the flags of ``names`` that are set.

    Raises UsageFault if neither a project nor ``--all-projects`` is given.
    """
    project = ALL_PROJECTS if args.all_projects else args.project or shell_project()
    if not project:
        raise UsageFault(
            f"name the project with --project ID (or {PROJECT_VARIABLES[0]} in the shell), or "
            "every project with --all-projects"
        )
    values = {name: getattr(args, name) for name in ("role", *names)}
    given = {name: value for name, value in values.items() if value is not None}
    return {"project": str(project), **given}


@contextlib.contextmanager
def connect(args: argparse.Namespace, noun: str) -> Iterator[Ask]:
    """Connect to the server if it is named or answers, else to its database.  Raises UsageFault."""
    target = locate_server(args, os.environ)
    if target.url and (url_of(args, os.environ) or _answers(target)):
        if not target.token:
            raise UsageFault(
                f"{target.url} needs an administrator's token; set TRAINSHED_TOKEN or give "
                "--token-file FILE. If no such token exists, stop the server and run this command "
                "on its machine, as a user who can write its database"
            )
        yield partial(_ask_server, _server(target, target.token), noun)
        return
    from trainshed.config import load_used_settings

    settings = load_used_settings(
        os.environ, {"data_dir": args.data_dir, "database": args.database}
    )
    with contextlib.closing(_open_store(settings, target.folder)) as store:
        note(f"no server runs; using the database in {target.folder}")
        yield partial(_ask_store, store, noun)


def check_out_file(path: Path | None) -> None:
    """Raise UsageFault if the folder of ``--out`` is missing, before a secret is made."""
    if path and not path.absolute().parent.is_dir():
        raise UsageFault(f"--out must be a file in a folder that exists, got {path}")


def print_list(rows: list[Json], columns: Sequence[str], form: str) -> None:
    """Print credentials; a column is a field of the JSON, or a key of ``_TIMES``."""
    if form == "json":
        out_json(rows)
        return
    cells = [[_cell(row, column) for column in columns] for row in rows]
    out(table([column.upper() for column in columns], cells))


def _cell(row: Json, column: str) -> str:
    if column in _TIMES:
        return str(row.get(_TIMES[column]) or "")[:19]
    return ("yes" if row["revoked"] else "") if column == "revoked" else str(row[column])


def _open_store(settings: "Settings", folder: Path) -> "Store":
    """Open the database of a stopped server.  Raises UsageFault if there is none."""
    from trainshed.store.opening import open_store  # SQLAlchemy, half a second

    if settings.database is None and not settings.store_file.exists():
        raise UsageFault(
            f"no server runs or ran in {folder}; name one with --url or {URL_VARIABLE}, or start "
            "one with: trainshed serve"
        )
    with _store_faults():
        return open_store(settings.store_url, existing=True)


def _server(target: LocatedServer, token: str | None) -> "Server":
    from trainshed.client.http import Server

    return Server(url=target.url or "", token=token, ca=target.ca, timeout_s=ANSWER_S_MAX)


def _answers(target: LocatedServer) -> bool:
    """Return whether the server of the data directory runs, without sending a token."""
    return (
        target.running is not None and target.running.is_alive and _server(target, None).answers()
    )


def _ask_server(server: "Server", noun: str, verb: str, argument: Any = None) -> Json:
    from trainshed.client.collections import path_of

    parts, body = ((argument,), None) if verb == "DELETE" else ((), argument)
    try:
        response = server.call(verb, path_of("trainshed", "v1", noun, *parts), body)
    except ServerRefusal as refusal:
        raise UsageFault(f"{server.url}: {refusal.message}") from refusal
    except Unreachable as error:
        raise UsageFault(
            f"cannot connect to {server.url}: {error.__cause__}; check the address"
        ) from error
    if verb == "GET" and not isinstance(response.get(noun), list):
        raise UsageFault(
            f"the response of {server.url} is not from a Trainshed server; check the address"
        )
    return response


def _ask_store(store: "Store", noun: str, verb: str, *arguments: Any) -> Json:
    from trainshed.service.auth import signing_keys, tokens
    from trainshed.wire.native_v1 import Answer, document

    operations: dict[tuple[str, str], Callable[..., Answer]] = {
        ("tokens", "POST"): tokens.create,
        ("tokens", "GET"): tokens.listing,
        ("tokens", "DELETE"): tokens.revoke,
        ("keys", "POST"): signing_keys.add,
        ("keys", "GET"): signing_keys.listing,
        ("keys", "DELETE"): signing_keys.remove,
    }
    with _store_faults():
        response = document(operations[noun, verb](store, *arguments))
        if verb != "GET":
            _note_change(store, f"{verb} /trainshed/v1/{noun}", arguments)
        return response


def _note_change(store: "Store", method: str, arguments: Sequence[Any]) -> None:
    """Record in the audit log a change that was made without the server."""
    from trainshed.service.upkeep.audit_log import AuditLog

    log = AuditLog(store)
    names = [argument for argument in arguments if isinstance(argument, str)]
    log.add(
        caller=f"uid {os.getuid()}",
        credential="local",
        address="local",
        method=method,
        resource="/".join([method.partition(" ")[2], *names]),
        project="",
        status="OK",
    )
    log.write()


@contextlib.contextmanager
def _store_faults() -> Iterator[None]:
    from trainshed.model.refusals import Refusal
    from trainshed.store.base import StoreFault

    try:
        yield
    except (Refusal, StoreFault) as fault:
        raise UsageFault(str(fault)) from fault
