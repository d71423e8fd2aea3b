"""Where the values of a job document are in its text, the same for YAML and JSON.

A violation names a dotted path (``trainingInput.workerCount``); ``locate`` walks it through the
nodes.  Nodes are made on the way only, so that aliases which expand to many values cost nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from trainshed.model.faults import UsageFault

#: What ends a line in every editor; YAML counts more characters as line ends.
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class Position(NamedTuple):
    """A place in a text; lines and columns count from 1, columns in characters."""

    line: int
    column: int


class DocumentFault(UsageFault):
    """A text that cannot be read as a job; ``position`` is None if it concerns the whole text."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        """Keep the position of the fault."""
        super().__init__(message)
        self.position = position


class TextSpan(NamedTuple):
    """A part of a text, in characters from 0; ``end`` is behind the last one."""

    start: int
    end: int


class TextEntry(NamedTuple):
    """A member of a mapping or a list; elements of a list have a number and no key in the text."""

    key: str | int
    key_span: TextSpan | None
    value: "TextNode"


@dataclass(frozen=True, kw_only=True)
class TextNode:
    """A value in a text.  ``span`` of a mapping or list in block style may end with blank lines.

    Its members are made once: a text may have thousands, and as many violations.
    """

    span: TextSpan
    entries: Callable[[], Sequence[TextEntry]] | None = None
    """The members of a mapping or a list; None for a single value."""
    is_list: bool = False
    is_flow: bool = False
    """Whether a mapping or list is in brackets, as in JSON."""

    def members(self) -> Sequence[TextEntry]:
        """Return the members; none for a single value."""
        return self._members

    @cached_property
    def _members(self) -> Sequence[TextEntry]:
        return self.entries() if self.entries else ()

    @cached_property
    def members_by_name(self) -> Mapping[str, TextEntry]:
        """The members by name, ``[0]`` for an element of a list."""
        return {_name_of(entry): entry for entry in self._members}  # merged keys come first

    @cached_property
    def name_lengths(self) -> Sequence[int]:
        """The lengths of the members' names, the longest first."""
        return sorted({len(name) for name in self.members_by_name}, reverse=True)


class Located(NamedTuple):
    """The result of ``locate``: the entry of a path, or of the nearest one above it."""

    entry: TextEntry | None
    """None for the whole document."""
    rest: str
    """The part of the path that the document does not have; empty if it has all of it."""


def locate(root: TextNode, path: str) -> Located:
    """Find the entry of a dotted path such as ``jobSpec.workerPoolSpecs[0].machineSpec``.

    Names may contain dots: the longest names are tried first.
    """
    return _locate(root, Located(None, path))


def _locate(node: TextNode, above: Located) -> Located:
    if not above.rest:
        return above
    nearest = above
    for entry, rest in _find_members(node, above.rest):
        located = _locate(entry.value, Located(entry, rest))
        if not located.rest:
            return located
        nearest = min(nearest, located, key=lambda other: len(other.rest))
    return nearest


def _find_members(node: TextNode, path: str) -> Sequence[tuple[TextEntry, str]]:
    """Return the members that a path begins with, and the rest of the path; longest names first."""
    lengths = (n for n in node.name_lengths if path[n : n + 1] in {"", ".", "["})
    return [
        (entry, path[length:].removeprefix("."))
        for length in lengths
        if (entry := node.members_by_name.get(path[:length]))
    ]


def _name_of(entry: TextEntry) -> str:
    return f"[{entry.key}]" if isinstance(entry.key, int) else entry.key


class Lines:
    """The lines of a text, for converting offsets to positions and back."""

    def __init__(self, text: str) -> None:
        """Find the beginnings of the lines."""
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._length = len(text)

    def position(self, offset: int) -> Position:
        """Return the position of a character; offsets behind the end are the end."""
        offset = min(offset, self._length)
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def offset(self, position: Position) -> int:
        """Return the offset of a position that ``position`` returned."""
        return self._starts[position.line - 1] + position.column - 1


def position_at(text: str, offset: int) -> Position:
    """Return the position of one character; for several, use ``Lines``."""
    return Lines(text).position(offset)
