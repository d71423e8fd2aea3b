"""Default credentials for the programs of one run, as ``google.auth.default`` reads them.

A key of a service account is preferred: it can sign URLs, and programs read its fields.  Only an
administrator's token can register a key.  With any other token the file describes a user, whose
refresh token is that token.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.client.faults import Json, ServerRefusal
from trainshed.client.http import Server
from trainshed.files.server_files import write_file
from trainshed.proxy.abandoned import FILE, KEYS, remove_record, write_record
from trainshed.service.auth import key_files

_GOOGLE: Final = "https://oauth2.googleapis.com"
_NAME: Final = "run"
_DENIED: Final = frozenset({401, 403})


class DefaultCredentials(NamedTuple):
    """A file of credentials; ``is_account``: of a service account, else of a user."""

    file: Path
    is_account: bool


def new_key() -> Json:
    """Make a key file of a service account, which is not registered yet."""
    return key_files.make(f"{_NAME}@all", "local", f"{_GOOGLE}/token")


def public_half(key: Json) -> Json:
    """Return the public part of a key file, which a server registers."""
    return key_files.from_key_file(key)


@contextlib.contextmanager
def default_credentials(
    server: Server, project: str, folder: Path, key: Json | None = None
) -> Iterator[DefaultCredentials]:
    """Write the file of default credentials into the folder; at the end delete its new key.

    ``key`` is a registered key to use instead, which stays registered.  Raises ServerRefusal and
    Unreachable.
    """
    document = key or new_key()
    key_id = None if key else _register(server, document, folder)
    is_account = key or key_id
    content = document | {"project_id": project} if is_account else _user_document(server, project)
    file = folder / FILE
    write_file(file, json.dumps(content).encode())
    try:
        yield DefaultCredentials(file, is_account=bool(is_account))
    finally:
        if key_id:
            with contextlib.suppress(Exception):  # the server has ended, or deleted it
                server.call("DELETE", f"{KEYS}/{key_id}")


def _register(server: Server, document: Json, folder: Path) -> str | None:
    """Register a key and return its id; None if the token is not an administrator's."""
    write_record(folder, server.url, document["private_key_id"])
    try:
        key = server.call("POST", KEYS, public_half(document))
    except ServerRefusal as refusal:
        if refusal.http_status in _DENIED:
            remove_record(folder)
            return None
        raise
    return str(key["id"])


def _user_document(server: Server, project: str) -> dict[str, str]:
    return {
        "type": "authorized_user",
        "client_id": "trainshed",
        "client_secret": "none",
        "refresh_token": server.token or "",
        "token_uri": f"{_GOOGLE}/token",
        "quota_project_id": project,
    }
