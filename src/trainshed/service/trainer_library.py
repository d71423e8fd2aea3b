"""The trainer library for programs whose own Python does not have it.

A program that imports ``trainshed_trainer`` finds it wherever the service starts it as a process,
and so does ``import torch``, which looks among the entry points of installed distributions for the
backends of others.  Where an interpreter has the library it uses that: PYTHONPATH, which would hide
it, gets nothing.
"""

import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainshed import __version__
from trainshed.service.installed import TRAINER, installed
from trainshed.service.private_files import write_file

#: The folder of the data directory in which the library is shown.
LIBRARY: Final = "trainer-library"
#: What an installation would have written beside the package; trainer/pyproject.toml says the same.
ENTRY_POINTS: Final = """\
[torch.backends]
trainshed_reduction = trainshed_trainer.reduction.torch_setup:register
"""

_DISTRIBUTION: Final = "trainshed-trainer"
_INFO: Final = f"{TRAINER}.dist-info"
_PYTHONPATH: Final = "PYTHONPATH"


class TrainerLibrary:
    """The server's own copy, shown as if installed in a folder that has nothing else in it."""

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
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._describe()
        link = self._folder / TRAINER
        if link.is_symlink() and str(link.readlink()) == package:
            return
        new = self._folder / f".{secrets.token_hex(4)}"
        new.symlink_to(package)
        new.replace(link)  # never absent: replicas are importing from it

    def _describe(self) -> None:
        """What makes a distribution of a package: its name, and what it adds to others."""
        info = self._folder / _INFO
        info.mkdir(mode=0o700, exist_ok=True)
        for name, text in (("METADATA", _metadata()), ("entry_points.txt", ENTRY_POINTS)):
            path = info / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_file(path, text.encode())


def _metadata() -> str:
    return f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {__version__}\n"


def _own() -> str | None:
    """Where the server's own Python has it."""
    spec = importlib.util.find_spec(TRAINER)
    return next(iter((spec and spec.submodule_search_locations) or ()), None)
