"""The files of the console: one page, and static files with a hash of their content in the name.

``console/build.mjs`` writes them.  The server reads a file when a browser requests it, so the
files use no memory while no browser does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
_INDEX: Final = "index.html"
#: The text in the page that each answer replaces by a new nonce.
_NONCE: Final = "@NONCE@"
_REVISION: Final = re.compile(r'name="trainshed-revision" content="([0-9A-Za-z]+)"')
_GZIP: Final = ".gz"
#: The types of static files by suffix; files with another suffix are not served.
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".txt": "text/plain; charset=utf-8",
        ".woff2": "font/woff2",
    }
)
#: A hash of the content, as esbuild writes it.
_HASHED: Final = re.compile(r".*-[0-9A-Z]{8}\.[a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A static file."""

    path: Path
    media_type: str
    is_compressed: bool
    """Whether there is a copy that is compressed with gzip, with ``.gz`` after the name."""

    @property
    def is_immutable(self) -> bool:
        """Whether a change of the content changes the name too."""
        return _HASHED.fullmatch(self.path.name) is not None

    def read(self, *, gzip: bool) -> bytes:
        """Return the content, compressed or not.  Raises OSError."""
        path = self.path.with_name(self.path.name + _GZIP) if gzip else self.path
        return path.read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleBundle:
    """The page and the static files of one build of the console."""

    index: str
    revision: str
    """A hash of the sources of the build."""
    files: Mapping[str, StaticFile]
    """The static files by name."""

    def render_page(self, nonce: str) -> str:
        """Return the page with a nonce for its style elements."""
        return self.index.replace(_NONCE, nonce)


def read_bundle(folder: Path = FOLDER) -> ConsoleBundle:
    """Read the page and the names of the static files.  Raises OSError for a missing page."""
    index = (folder / _INDEX).read_text("utf-8")
    revision = _REVISION.search(index)
    names = {path.name for path in folder.iterdir()}
    files = {
        name: StaticFile(
            path=folder / name,
            media_type=_TYPES[Path(name).suffix],
            is_compressed=name + _GZIP in names,
        )
        for name in names
        if Path(name).suffix in _TYPES
    }
    return ConsoleBundle(index=index, revision=revision[1] if revision else "", files=files)
