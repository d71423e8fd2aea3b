"""Removes the folders of killed sessions, and their keys on the server.

A session holds a lock on its folder, which ends with its process.  Before a session registers a
key, it records the server, so that the next session at the same server can remove the key.
"""

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from trainshed.client.collections import path_of
from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.client.http import Server
from trainshed.files.server_files import hold_folder, write_file

#: The beginning of the name of a session's folder.
PREFIX: Final = "trainshed-run-"
#: The file of credentials in the folder.
FILE: Final = "credentials.json"
KEYS: Final = path_of("trainshed", "v1", "keys")
_RECORD: Final = "registered.json"
_NOT_FOUND: Final = 404


def write_record(folder: Path, url: str, key_id: str) -> None:
    """Record a key before it is registered at a server."""
    write_file(folder / _RECORD, json.dumps([url, key_id]).encode())


def remove_record(folder: Path) -> None:
    """Remove the record after the server has refused the key."""
    (folder / _RECORD).unlink()


def remove_abandoned(server: Server) -> None:
    """Remove the folders of this user's sessions that were killed, with their keys at the server.

    A folder with a key at another server stays until a session at that server removes it.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, Unreachable, ServerRefusal):
            if folder.lstat().st_uid != os.geteuid():
                continue
            with hold_folder(folder, waits=False):
                _remove(folder, server)


def _remove(folder: Path, server: Server) -> None:
    record = folder / _RECORD
    if record.exists():
        url, key_id = json.loads(record.read_text("utf-8"))
        if url != server.url:
            return
        _delete_key(server, key_id)
    elif not (folder / FILE).exists():
        return  # its session has just started
    shutil.rmtree(folder, ignore_errors=True)


def _delete_key(server: Server, key_id: str) -> None:
    try:
        server.call("DELETE", f"{KEYS}/{key_id}")
    except ServerRefusal as refusal:
        if refusal.http_status != _NOT_FOUND:
            raise
