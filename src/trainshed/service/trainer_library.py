"""The trainer library for programs whose own Python does not have it.

A program that imports ``trainshed_trainer`` finds it wherever the service starts it as a process.
Where an interpreter has the library it uses that: PYTHONPATH, which would hide it, gets nothing.
"""

import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainshed.service.installed import TRAINER, installed

_PYTHONPATH: Final = "PYTHONPATH"


class TrainerLibrary:
    """The server's own copy, shown in a folder that has nothing else in it."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is made when it is needed."""
        self._folder = folder

    def variables(self, python: str, env: Mapping[str, str]) -> dict[str, str]:
        """PYTHONPATH for an interpreter that lacks the library: that of ``env``, and ours last.

        Nothing for one that has it, nor where the server has none to give.  Raises OSError.
        """
        package = None if installed(python).has_trainer else _own()
        if package is None:
            return {}
        self._show(package)
        paths = filter(None, [env.get(_PYTHONPATH), str(self._folder)])
        return {_PYTHONPATH: os.pathsep.join(paths)}

    def _show(self, package: str) -> None:
        """A link and no copy, so that it is renewed with the server."""
        link = self._folder / TRAINER
        if link.is_symlink() and str(link.readlink()) == package:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._folder / f".{secrets.token_hex(4)}"
        new.symlink_to(package)
        new.replace(link)  # never absent: replicas are importing from it


def _own() -> str | None:
    """Where the server's own Python has it."""
    spec = importlib.util.find_spec(TRAINER)
    return next(iter((spec and spec.submodule_search_locations) or ()), None)
