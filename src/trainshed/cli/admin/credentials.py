"""``trainshed tokens create|list|revoke``, ``trainshed keys create|add|list|remove``.

They are handled by the running server, or, without one, in its database.  A SQLite database belongs
to the server's process alone while that runs, so the server is asked whenever it answers.  Both
ways give the same JSON.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainshed.cli.connecting import (
    PROJECT_VARIABLES,
    URL_VARIABLE,
    FoundServer,
    reach,
    shell_project,
    url_of,
)
from trainshed.cli.flags import Request
from trainshed.cli.terminal import answer, note, out, out_json, table
from trainshed.client.collections import path_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.http import Server
from trainshed.config import Settings, load_used_settings
from trainshed.files.server_files import write_file
from trainshed.model.access import ALL_PROJECTS
from trainshed.model.faults import UsageFault
from trainshed.model.refusals import Refusal
from trainshed.service.auth import key_files, signing_keys, tokens
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store

ANSWER_S_MAX: Final = 10.0

#: Asks for a POST, GET or DELETE, with the document or the id if there is one.  Raises UsageFault.
Ask = Callable[..., Json]

_OPERATIONS: Final[Mapping[tuple[str, str], Callable[..., Json]]] = {
    ("tokens", "POST"): tokens.create,
    ("tokens", "GET"): tokens.listing,
    ("tokens", "DELETE"): tokens.revoke,
    ("keys", "POST"): signing_keys.add,
    ("keys", "GET"): signing_keys.listing,
    ("keys", "DELETE"): signing_keys.remove,
}
#: The columns of lists, and the fields that they show.
_COLUMNS: Final = {
    "tokens": ("id", "name", "role", "project", "created", "expires", "last used", "revoked"),
    "keys": ("id", "email", "role", "project", "created"),
}


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    if args.action in ("create", "add"):
        args.project = _project(args)
    if args.action == "add":
        args.document = _read_key(args)  # before a server or a database is asked
    perform = _ACTIONS[args.noun, args.action]
    with _connect(args) as ask:
        perform(ask, args)
    return 0


def _project(args: Any) -> str:
    """The project of a grant.  Every project is asked for by name: it is never meant by chance."""
    if args.all_projects:
        return ALL_PROJECTS
    if project := args.project or shell_project():
        return str(project)
    raise UsageFault(
        f"name the project with --project ID (or {PROJECT_VARIABLES[0]} in the shell), or every "
        "project with --all-projects"
    )


@contextlib.contextmanager
def _connect(args: Any) -> Iterator[Ask]:
    """The server if it is named or answers, else its database."""
    target = reach(args, os.environ)
    if target.url and (url_of(args, os.environ) or _answers(target)):
        if not target.token:
            raise UsageFault(
                f"{target.url} wants an administrator's token; set TRAINSHED_TOKEN or give "
                "--token-file FILE. Without any, stop the server and repeat this on its machine: "
                "whoever may write its database may make a token"
            )
        yield partial(_ask_server, _server(target, target.token), args.noun)
        return
    flags = {"data_dir": args.data_dir, "database": args.database}
    settings = load_used_settings(os.environ, flags)
    with contextlib.closing(_open_store(settings, target.folder)) as store:
        note(f"no server runs here; using the database of {target.folder}")
        yield partial(_ask_store, store, args.noun)


def _open_store(settings: Settings, folder: Path) -> Store:
    """The database of a server that does not run.  Raises UsageFault where none has used it."""
    from trainshed.store.opening import open_store

    if settings.database is None and not settings.store_file.exists():
        raise UsageFault(
            f"no server runs or ran in {folder}; name one with --url or {URL_VARIABLE}, or start "
            "one with: trainshed serve"
        )
    with _store_faults():
        return open_store(settings.store_url, existing=True)


def _server(target: FoundServer, token: str | None) -> Server:
    return Server(url=target.url or "", token=token, ca=target.ca, timeout_s=ANSWER_S_MAX)


def _answers(target: FoundServer) -> bool:
    """Whether the server of the data directory runs; it is shown no token yet."""
    return (
        target.running is not None and target.running.is_alive and _server(target, None).answers()
    )


def _ask_server(server: Server, noun: str, verb: str, argument: Any = None) -> Json:
    parts, document = ((argument,), None) if verb == "DELETE" else ((), argument)
    try:
        response = server.call(verb, path_of("trainshed", "v1", noun, *parts), document)
    except ServerRefusal as refusal:
        raise UsageFault(f"{server.url}: {refusal.message}") from refusal
    except Unreachable as error:
        raise UsageFault(f"cannot talk to {server.url}: {error.__cause__}") from error
    if verb == "GET" and not isinstance(response.get(noun), list):
        raise UsageFault(f"{server.url} does not answer as a Trainshed server does")
    return response


def _ask_store(store: Store, noun: str, verb: str, *arguments: Any) -> Json:
    with _store_faults():
        response = _OPERATIONS[noun, verb](store, *arguments)
        if verb != "GET":
            _note_change(store, f"{verb} /trainshed/v1/{noun}", arguments)
        return response


def _note_change(store: Store, method: str, arguments: Sequence[Any]) -> None:
    """What is changed past the server is in its audit log, too."""
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
    try:
        yield
    except (Refusal, StoreFault) as fault:
        raise UsageFault(str(fault)) from fault


def _create_token(ask: Ask, args: Any) -> None:
    _check_out(args)
    token = ask("POST", _collect_flags(args, "name", "project", "role", "expires"))
    if args.out:
        write_file(args.out, f"{token.pop('token')}\n".encode())
        token["file"] = str(args.out)
    if args.format == "text":
        project = token["project"]
        scope = "all projects" if project == "*" else f"project {project}"
        expiry = f", until {token['expireTime'][:19]} UTC" if "expireTime" in token else ""
        note(f"token {token['id']}: {token['role']}, {scope}{expiry}")
    answer(args.format, token, token["file"] if args.out else token["token"])


def _check_out(args: Any) -> None:
    """Before anything is made."""
    if args.out and not args.out.absolute().parent.is_dir():
        raise UsageFault(f"--out {args.out}: there is no such folder")


def _create_key(ask: Ask, args: Any) -> None:
    """The key is made here, and its public half registered: nobody else has the private one."""
    _check_out(args)
    url = reach(args, os.environ).url
    if url is None:
        raise UsageFault("a key file names its server; say which it is with --url ADDRESS")
    try:
        content = signing_keys.new_key_file(url, args.name or "account", args.project)
    except Refusal as refusal:
        raise UsageFault(f"--{refusal.message}") from refusal
    key = ask("POST", key_files.from_key_file(content) | _collect_flags(args, "project", "role"))
    text = json.dumps(content, indent=2)
    if args.out:
        write_file(args.out, f"{text}\n".encode())
    if args.format == "text":
        note(f"key {key['id']} of {key['email']} is registered: {key['role']}")
    document = key | ({"file": str(args.out)} if args.out else {"keyFile": content})
    answer(args.format, document, str(args.out) if args.out else text)


def _add_key(ask: Ask, args: Any) -> None:
    key = ask("POST", args.document)
    note(signing_keys.REPLAY.format(email=key["email"]))
    text = f"key {key['id']} of {key['email']} is registered: {key['role']}"
    answer(args.format, key, text)


def _list(ask: Ask, args: Any) -> None:
    rows = ask("GET")[args.noun]
    if args.format == "json":
        out_json(rows)
        return
    columns = _COLUMNS[args.noun]
    cells = [[_cell(row, column) for column in columns] for row in rows]
    out(table([column.upper() for column in columns], cells))


def _cell(row: Json, column: str) -> str:
    times = {"created": "createTime", "expires": "expireTime", "last used": "lastUseTime"}
    if column in times:
        return str(row.get(times[column]) or "")[:19]
    return ("yes" if row["revoked"] else "") if column == "revoked" else str(row[column])


def _remove(ask: Ask, args: Any) -> None:
    ask("DELETE", args.id)
    gone = f"{args.action}d"
    answer(args.format, {"id": args.id, gone: True}, f"{args.noun[:-1]} {args.id} is {gone}")


_ACTIONS: Final[Mapping[tuple[str, str], Callable[[Ask, Any], None]]] = {
    ("tokens", "create"): _create_token,
    ("tokens", "list"): _list,
    ("tokens", "revoke"): _remove,
    ("keys", "create"): _create_key,
    ("keys", "add"): _add_key,
    ("keys", "list"): _list,
    ("keys", "remove"): _remove,
}


def _collect_flags(args: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _read_key(args: Any) -> dict[str, Any]:
    key = _read_key_file(args.key_file) if args.key_file else _read_public_key(args)
    return key | _collect_flags(args, "project", "role")


def _read_key_file(path: Path) -> dict[str, Any]:
    try:
        return key_files.from_key_file(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key file {path}: {error}") from error


def _read_public_key(args: Any) -> dict[str, Any]:
    try:
        pem = args.public_key.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageFault(f"cannot read the key {args.public_key}: {error}") from error
    if "PRIVATE KEY" in pem:
        raise UsageFault(f"{args.public_key} is a private key; nobody but its owner may have it")
    return {"email": args.email, "publicKey": pem}
