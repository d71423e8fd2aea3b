"""The files of the console: one page, and static files with a hash of their content in the name.

``console/build.mjs`` writes them.  The server reads all of them when it starts, half a megabyte of
compressed files: an upgrade may replace them on disk while the page of the old ones is served.
"""

import gzip
import re
from collections.abc import Collection, Mapping
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

    name: str
    media_type: str
    content: bytes
    """The content, compressed with gzip if ``is_compressed``."""
    is_compressed: bool

    @property
    def is_immutable(self) -> bool:
        """Whether a change of the content changes the name too."""
        return _HASHED.fullmatch(self.name) is not None

    def plain_content(self) -> bytes:
        """Return the content without compression."""
        return gzip.decompress(self.content) if self.is_compressed else self.content


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
    """Read the page and the static files.  Raises OSError for a missing page."""
    index = (folder / _INDEX).read_text("utf-8")
    revision = _REVISION.search(index)
    names = {path.name for path in folder.iterdir()}
    files = {name: _read_file(folder, name, names) for name in names if Path(name).suffix in _TYPES}
    return ConsoleBundle(index=index, revision=revision[1] if revision else "", files=files)


def _read_file(folder: Path, name: str, names: Collection[str]) -> StaticFile:
    """Read a static file; of two copies only the compressed one, with ``.gz`` after the name."""
    is_compressed = name + _GZIP in names
    return StaticFile(
        name=name,
        media_type=_TYPES[Path(name).suffix],
        content=(folder / (name + _GZIP if is_compressed else name)).read_bytes(),
        is_compressed=is_compressed,
    )
