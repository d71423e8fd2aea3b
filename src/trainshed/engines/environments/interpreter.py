"""Describes a Python interpreter before packages are installed for it.

The server calls ``describe`` for its own interpreter.  Another interpreter runs this file as a
script, so the file imports only the standard library and uses old syntax.
"""

import hashlib
import importlib.util
import json
import site
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple


class Interpreter(NamedTuple):
    """An interpreter, with the facts of ``describe``."""

    path: str
    identity: str
    version: str
    builds: bool


def describe() -> dict[str, object]:
    """Return facts about the running interpreter as JSON values.

    ``identity`` changes when the interpreter, its platform or the set of packages installed in it
    changes.  ``version`` is a text such as 3.11.  ``builds``: whether the interpreter can build a
    setuptools package with its installed packages.
    """
    facts = [sys.version, sysconfig.get_platform(), sys.prefix, *_list_distributions()]
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    version = "{}.{}".format(*sys.version_info)
    return {"identity": digest, "version": version, "builds": _builds()}


def _list_distributions() -> list[str]:
    """List the metadata folders of the installed distributions; their names have the versions."""
    directories = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    directories.update(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        directories.add(site.getusersitepackages())
    paths = (path for directory in directories for path in Path(directory).glob("*-info"))
    return sorted(map(str, paths))


def _builds() -> bool:
    """Return whether setuptools is installed with wheel support, its own or of ``wheel``."""
    spec = importlib.util.find_spec("setuptools")
    if spec is None or spec.origin is None:
        return False
    own = Path(spec.origin).parent / "command" / "bdist_wheel.py"
    return own.exists() or importlib.util.find_spec("wheel") is not None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()))
