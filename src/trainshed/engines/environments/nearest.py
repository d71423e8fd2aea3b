"""The version of a distribution nearest to one that a Python cannot have.

Old pins name versions that were never built for a newer Python.  The next one up is the nearest;
where there is none, the last one before.  A version with a wheel is taken before any source:
sources of an old version compile for minutes, and then fail on a newer Python.
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
#: How the name of a wheel ends that any machine may have: nothing of it was compiled.
_ANY: Final = "-none-any.whl"
#: uv is the builder's, and the file ours.
_READABLE: Final = 0o644


class Release(NamedTuple):
    """A version that a Python can have."""

    name: str
    """As normal names are: in small letters, with dashes."""
    version: str
    wheel: str | None
    """The address of its wheel; None: it is to be built from its source."""

    @property
    def is_pure(self) -> bool:
        """Whether its wheel is of Python alone."""
        return bool(self.wheel and self.wheel.endswith(_ANY))


class Index(NamedTuple):
    """What uv finds for a Python."""

    python: str
    ask: Ask
    folder: Path
    """Ours, where uv can read: it takes requirements from files only."""

    def newest(self, requirement: str, *how: str) -> Release | None:
        """What uv takes for it."""
        return next(iter(self.releases((requirement,), *how)), None)

    def releases(self, requirements: Iterable[str], *how: str) -> list[Release]:
        """What uv takes for each; none where one of them has nothing.

        No more is downloaded than what is known of each, and nothing is built.
        """
        file = self.folder / "asked.in"
        file.write_text("".join(f"{requirement}\n" for requirement in requirements))
        file.chmod(_READABLE)
        answer = self.ask([*_COMPILE, *_LOCK, *how, "--python", self.python, str(file)])
        return [] if answer.code else list(_read_lock_file(answer.text))


def nearest(name: str, version: str, index: Index) -> Release | None:
    """The version to take in place of one; itself if it has a wheel, None if there is none at all.

    ``version`` is of a pin, so ``2.8.*`` and ``2.8.0`` are versions here.
    """
    low = version.removesuffix(".*")
    tries = ((f"=={version}",), (f">={low}", "--resolution", "lowest-direct"), (f"<{low}",))
    for kinds in (_WHEELS, ()):
        for condition, *how in tries:
            release = index.newest(f"{name}{condition}", *kinds, *how)
            if release is not None:
                return release
    return None


def _read_lock_file(lock: str) -> Iterator[Release]:
    """The packages of a lock file (PEP 751), after what uv may have warned of."""
    document = re.search(r"^lock-version = .*", lock, re.MULTILINE | re.DOTALL)
    try:
        packages = tomllib.loads(document[0]).get("packages", ()) if document else ()
    except tomllib.TOMLDecodeError:
        return
    for package in packages:
        wheel: Mapping[str, str] = next(iter(package.get("wheels", ())), {})
        yield Release(package["name"], package["version"], wheel.get("url") or wheel.get("path"))
