"""Default credentials for the programs of one run, as ``google.auth.default`` reads them.

A key of a service account is the better kind: it signs addresses, and programs read its fields.
Only an administrator's token can register one; with another token the programs are a user, whose
refresh token is that token.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainshed.client.collections import path_of
from trainshed.client.faults import Json, ServerRefusal
from trainshed.client.http import Server
from trainshed.service.auth import signing_keys
from trainshed.service.server_files import write_file

_GOOGLE: Final = "https://oauth2.googleapis.com"
_KEYS: Final = path_of("trainshed", "v1", "keys")
_NAME: Final = "run"
_DENIED: Final = frozenset({401, 403})


@contextlib.contextmanager
def default_credentials(server: Server, project: str, folder: Path) -> Iterator[Path]:
    """The file in the folder; the server forgets its key afterwards.

    Raises ServerRefusal and Unreachable.
    """
    file = folder / "credentials.json"
    document = signing_keys.new_key_file(_GOOGLE, _NAME, None) | {"project_id": project}
    key_id = _register(server, document)
    write_file(file, json.dumps(document if key_id else _user(server, project)).encode())
    try:
        yield file
    finally:
        if key_id:
            with contextlib.suppress(Exception):  # the server has ended, or forgotten it
                server.call("DELETE", f"{_KEYS}/{key_id}")


def _register(server: Server, document: Json) -> str | None:
    """The id of the key; None where the token is no administrator's."""
    try:
        key = server.call("POST", _KEYS, signing_keys.from_key_file(document))
    except ServerRefusal as refusal:
        if refusal.http_status in _DENIED:
            return None
        raise
    return str(key["id"])


def _user(server: Server, project: str) -> dict[str, str]:
    return {
        "type": "authorized_user",
        "client_id": "trainshed",
        "client_secret": "none",
        "refresh_token": server.token or "",
        "token_uri": f"{_GOOGLE}/token",
        "quota_project_id": project,
    }
