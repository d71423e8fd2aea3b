"""Finds the nearest version to a pinned version that an interpreter cannot have.

Old pins name versions that were never built for a newer Python.  The nearest version is the next
higher one or, if there is none, the highest lower one.  Versions with a wheel come before all
sources: sources of an old version compile for minutes, and then fail on a newer Python.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.environments.uv import UvResult

#: Runs uv with these arguments.
Ask = Callable[[Sequence[str]], UvResult]

_COMPILE: Final = ("pip", "compile", "--quiet", "--no-header", "--no-deps")
_LOCK: Final = ("--format", "pylock.toml")
_WHEELS: Final = ("--only-binary", ":all:")
#: The end of the name of a wheel without compiled code.
_ANY: Final = "-none-any.whl"
#: The mode of the file of requirements: uv reads it as the builder's user.
_READABLE: Final = 0o644


class Release(NamedTuple):
    """A version that a Python can have."""

    name: str
    """The normalized name: in lower case, with dashes."""
    version: str
    wheel: str | None
    """The address of its wheel; None: it has only a source."""

    @property
    def is_pure(self) -> bool:
        """Whether its wheel has no compiled code."""
        return bool(self.wheel and self.wheel.endswith(_ANY))


class Index(NamedTuple):
    """The versions that uv can resolve for a Python."""

    python: str
    ask: Ask
    folder: Path
    """The server's folder for requirements, which uv reads from files only."""

    def newest(self, requirement: str, *how: str) -> Release | None:
        """Return the version that uv chooses for a requirement; None if there is none."""
        return next(iter(self.releases((requirement,), *how)), None)

    def releases(self, requirements: Iterable[str], *how: str) -> list[Release]:
        """Return the versions that uv chooses; an empty list if one requirement has no version.

        uv downloads only metadata, and builds nothing.
        """
        file = self.folder / "asked.in"
        file.write_text("".join(f"{requirement}\n" for requirement in requirements))
        file.chmod(_READABLE)
        answer = self.ask([*_COMPILE, *_LOCK, *how, "--python", self.python, str(file)])
        return [] if answer.code else list(_read_lock_file(answer.text))


def nearest(name: str, version: str, index: Index) -> Release | None:
    """Return the version to install for a pin: the pinned one if it has a wheel, else the nearest.

    None if no version fits.  ``version`` is the pin's, such as ``2.8.*`` or ``2.8.0``.
    """
    base = version.removesuffix(".*")
    tries = ((f"=={version}",), (f">={base}", "--resolution", "lowest-direct"), (f"<{base}",))
    for kinds in (_WHEELS, ()):
        for condition, *how in tries:
            release = index.newest(f"{name}{condition}", *kinds, *how)
            if release is not None:
                return release
    return None


def _read_lock_file(lock: str) -> Iterator[Release]:
    """Yield the packages of a lock file (PEP 751); warnings of uv may precede its text."""
    document = re.search(r"^lock-version = .*", lock, re.MULTILINE | re.DOTALL)
    try:
        packages = tomllib.loads(document[0]).get("packages", ()) if document else ()
    except tomllib.TOMLDecodeError:
        return
    for package in packages:
        wheel: Mapping[str, str] = next(iter(package.get("wheels", ())), {})
        yield Release(package["name"], package["version"], wheel.get("url") or wheel.get("path"))
