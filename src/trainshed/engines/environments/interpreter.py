"""What there is to know about a Python interpreter before packages are installed for it.

For the launcher's own interpreter this is a call; for another one this file runs in it as a
script, so it imports only the standard library and keeps to old syntax.
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
    """One, with what ``describe`` says of it."""

    path: str
    identity: str
    version: str
    builds: bool


def describe() -> dict[str, object]:
    """Facts as JSON values.

    ``identity`` changes when the interpreter, its platform or the set of packages installed in it
    changes.  ``version`` is such as 3.11.  ``builds`` says whether it can build a setuptools
    package by itself.
    """
    facts = [sys.version, sysconfig.get_platform(), sys.prefix, *_list_distributions()]
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    version = "{}.{}".format(*sys.version_info)
    return {"identity": digest, "version": version, "builds": _builds()}


def _list_distributions() -> list[str]:
    """The installed distributions, by the folders that hold their versions in their names."""
    directories = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    directories.update(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        directories.add(site.getusersitepackages())
    paths = (path for directory in directories for path in Path(directory).glob("*-info"))
    return sorted(map(str, paths))


def _builds() -> bool:
    """Whether setuptools is there, with wheel support of its own or from wheel."""
    spec = importlib.util.find_spec("setuptools")
    if spec is None or spec.origin is None:
        return False
    own = Path(spec.origin).parent / "command" / "bdist_wheel.py"
    return own.exists() or importlib.util.find_spec("wheel") is not None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()))
