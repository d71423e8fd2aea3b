"""Adds the rows of an environment to a server's configuration file.

The administrator's text stays unchanged, and the rows are appended.  The file is replaced only if
a server can read the result.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.config import Settings, load_settings
from trainshed.files.server_files import PRIVATE, hold_folder, write_file
from trainshed.model.faults import UsageFault

_DRAFT: Final = ".with-environment"
_MODE_BITS: Final = 0o777


def check_rows(path: Path, name: str, runtime: str) -> None:
    """Raise UsageFault for a file to which the environment cannot be added.

    That is an unreadable file, or one with an environment of that name or a row for that runtime
    version: the earlier row would have priority.
    """
    settings = _settings(path)
    if name in {environment.name for environment in settings.environments}:
        raise UsageFault(
            f"{path} has an [[environment]] named {name!r} already; remove it, or name another DIR"
        )
    rows = (row for row in settings.images if row.runtime_version == runtime)
    if row := next(rows, None):
        raise UsageFault(
            f"{path} has an [[image]] of runtime_version {runtime!r} already, for the environment "
            f"{row.environment!r}; remove it, or leave --write out"
        )


def add_rows(path: Path, rows: str) -> None:
    """Append the rows to the file, which is made if it is missing.

    Raises UsageFault if a server could not read the result, or the file cannot be written.
    """
    path = path.resolve()  # a symbolic link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_folder(path.parent):  # other builds wait
            _add(path, rows)
    except OSError as error:
        raise UsageFault(f"cannot write {path}: {error.strerror or error}") from error


def _add(path: Path, rows: str) -> None:
    draft = path.with_name(f"{path.name}{_DRAFT}")
    try:
        before = path.read_text("utf-8") if path.exists() else ""
        text = f"{before.rstrip()}\n\n{rows}\n" if before.strip() else f"{rows}\n"
        write_file(draft, text.encode(), _mode_of(path))
        _settings(draft)
        _keep_owner(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _settings(path: Path) -> Settings:
    return load_settings(path if path.exists() else None, {}, {"data_dir": str(path.parent)})


def _mode_of(path: Path) -> int:
    return path.stat().st_mode & _MODE_BITS if path.exists() else PRIVATE


def _keep_owner(path: Path, draft: Path) -> None:
    with suppress(OSError):  # only root may change the owner; other users are the owner
        status = path.stat()
        os.chown(draft, status.st_uid, status.st_gid)
