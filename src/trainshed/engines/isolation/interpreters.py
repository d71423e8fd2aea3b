"""Finds the folders that a Python interpreter needs: its own, and those of its packages."""

import functools
import os
import pwd
import sys
from collections.abc import Iterator
from typing import Final

from trainshed.engines.processes.interpreter import ask_interpreter

_SCRIPT: Final = """
import json, sys
print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]))
"""
#: The parts of an installation to read if it lies in a home; the last is of an environment.
_PARTS: Final = ("bin", "lib", "lib64", "libexec", "share", "include", "pyvenv.cfg")
_SYSTEM: Final = ("/usr", "/")


def home_of_user() -> str:
    """Return the home of the server's user: of the password database, or else of HOME."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return os.path.expanduser("~")


@functools.cache
def folders_of(python: str) -> tuple[str, ...]:
    """List the folders that an interpreter reads; cached for the life of the process."""
    folders = dict.fromkeys(filter(os.path.isdir, (*_list_prefixes(python), *_ask_paths(python))))
    return tuple(path for folder in folders for path in _narrow(folder))


def _list_prefixes(python: str) -> Iterator[str]:
    """Yield the folder above the one with the program, for each link on the way to it."""
    path = os.path.abspath(python)
    for _ in range(40):
        yield os.path.dirname(os.path.dirname(path))
        yield os.path.dirname(os.path.dirname(os.path.realpath(path)))
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _ask_paths(python: str) -> list[str]:
    if python == sys.executable:
        paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
        return [path for path in paths if path.startswith("/")]
    import subprocess  # noqa: PLC0415 - rarely needed, and slow to import

    try:
        return [path for path in ask_interpreter(python, _SCRIPT) if path.startswith("/")]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _narrow(folder: str) -> Iterator[str]:
    """Yield a folder, or only parts of an installation if the folder contains the home."""
    home = home_of_user()
    if folder in _SYSTEM:
        return
    if home == folder or home.startswith(f"{folder}/"):
        parts = (os.path.join(folder, part) for part in _PARTS)
        yield from filter(os.path.exists, parts)
    else:
        yield folder
