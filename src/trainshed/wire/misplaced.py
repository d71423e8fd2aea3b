"""Finds the right path of a misplaced or misspelled field, and corrects the document.

One missing indentation causes many violations.  Only the misplaced field is reported; everything
else is checked in the corrected document, so that consequences of the mistake are not reported.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.spelling import letters_of
from trainshed.wire.fields import FieldInfo, MessageInfo, Table
from trainshed.wire.parsed import snake

#: Fields without a declared message whose content is a message.
BODIES: Final = {("TrainingPipeline", "trainingTaskInputs"): "CustomJobSpec"}

#: Messages that are documents and also fields of a larger message: (larger message, field).
OUTER: Final = {"CustomJobSpec": ("CustomJob", "jobSpec")}

#: The most possible paths of a field that a violation names.
PLACES_MAX: Final = 4

#: A path in a document: keys, and positions in lists.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The move of a value from a wrong path to the right path."""

    source: Path
    target: Path
    item: Any = None
    is_guess: bool
    """Whether the key is misspelled, so that the target is only the most similar field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The right path of a misplaced field: for a sentence, for ``accepted``, and as steps.

    ``target`` is None if there are several possible paths.
    """

    sentence: str
    accepted: str
    target: Path | None


class MessageFields:
    """All fields below a document's message, by name in lower case without underscores."""

    def __init__(self, table: Table, root: str) -> None:
        """Collect the fields of all messages below ``root``; skips a message inside of itself."""
        self._root = root
        self._table = table
        self._by_name: dict[str, list[tuple[tuple[str, ...], FieldInfo]]] = {}
        self._repeated: dict[tuple[str, ...], bool] = {}
        self._walk(table.messages[root], (), (root,))

    def _walk(self, info: MessageInfo, path: tuple[str, ...], above: tuple[str, ...]) -> None:
        """Collect the fields of a message and of the messages in its fields."""
        for field in info.fields:
            if field.refused or field.is_output:
                continue
            self._by_name.setdefault(letters_of(field.json_name), []).append((path, field))
            inner = field.type if field.kind == "message" and not field.value else ""
            inner = BODIES.get((info.name, field.json_name), inner)
            if inner in self._table.messages and inner not in above:
                field_path = (*path, field.json_name)
                self._repeated[field_path] = field.is_repeated
                self._walk(self._table.messages[inner], field_path, (*above, inner))

    def find(
        self, key: str, at: Path, document: Mapping[Any, Any], document_at: Path = ()
    ) -> Destination | None:
        """Return the right path of a field ``key`` that is in the object ``at``; None without one.

        ``document_at`` is the path of the document below the root.
        """
        object_path = tuple(snake_free(step) for step in at if isinstance(step, str))
        rows = [
            (path, field)
            for path, field in self._by_name.get(letters_of(key), ())
            if path != object_path
        ]
        if not rows:
            return self._outer(key)
        least_distance = min(_distance(object_path, path) for path, _ in rows)
        rows = [row for row in rows if _distance(object_path, row[0]) == least_distance]
        paths = [self._place_path(path, at, is_snake="_" in key) for path, _ in rows]
        above = len(document_at)
        existing_paths = [place for place in paths if _holds(document, place[above:])]
        paths = existing_paths or paths
        field = rows[0][1]
        name = field.name if "_" in key else field.json_name
        target = (*paths[0], name) if len(paths) == 1 else None
        accepted = _or([dotted((*place, name)) for place in paths[:PLACES_MAX]])
        return Destination(sentence=_sentence(name, paths, at), accepted=accepted, target=target)

    def inner_names(self) -> frozenset[str]:
        """Return the names, as letters, of fields that exist only below the top level."""
        return frozenset(
            name for name, rows in self._by_name.items() if all(path for path, _ in rows)
        )

    def _place_path(self, path: tuple[str, ...], at: Path, *, is_snake: bool) -> Path:
        """Return a path in the caller's key case, with the list positions of ``at``."""
        shared, place = _share_prefix(path, at)
        steps: list[str | int] = list(place)
        for count in range(shared + 1, len(path) + 1):
            steps.append(snake(path[count - 1]) if is_snake else path[count - 1])
            if self._repeated[path[:count]]:
                steps.append(0)
        return tuple(steps)

    def _outer(self, key: str) -> Destination | None:
        """Return the destination of a field of the larger message; None if it has none."""
        outer, beside = OUTER.get(self._root, ("", ""))
        info = self._table.messages.get(outer)
        field = (
            next((f for f in info.fields if letters_of(f.json_name) == letters_of(key)), None)
            if info
            else None
        )
        if field is None or field.refused or field.is_output:
            return None
        sentence = f"{field.json_name} belongs to a {outer}, beside {beside}; {self._root} has none"
        return Destination(sentence=sentence, accepted=f"a flag, or a {outer}", target=None)


def snake_free(step: str) -> str:
    """Convert a key to camelCase."""
    head, *rest = step.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def _distance(object_path: Sequence[str], other_path: Sequence[str]) -> int:
    shared = 0
    for one, other in zip(object_path, other_path, strict=False):
        if one != other:
            break
        shared += 1
    return len(object_path) + len(other_path) - 2 * shared


def _share_prefix(path: tuple[str, ...], at: Path) -> tuple[int, Path]:
    """Return the number of common steps, and that part of ``at`` with its list positions."""
    shared, place = 0, 0
    while place < len(at) and shared < len(path):
        step = at[place]
        if isinstance(step, str):
            if snake_free(step) != path[shared]:
                break
            shared += 1
        place += 1
    while place < len(at) and isinstance(at[place], int):
        place += 1
    return shared, at[:place]


def _sentence(name: str, paths: Sequence[Path], at: Path) -> str:
    place = paths[0]
    if at[: len(place)] == place and len(at) > len(place):
        beside = dotted((at[len(place)],))
        location = f"in {dotted(place)}" if place else "at the top level"
        return f"{name} belongs {location}, beside {beside}"
    return f"{name} belongs below {_or([dotted(path) for path in paths[:PLACES_MAX]])}"


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def dotted(path: Path) -> str:
    """Return a path as text, such as ``workerPoolSpecs[0].machineSpec``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _holds(document: Any, path: Path) -> bool:
    """Whether a document has an object at a path, which must not be empty."""
    for step in path:
        if isinstance(step, int):
            if isinstance(document, Mapping):
                continue  # an object instead of a list
            document = (
                document[step] if isinstance(document, list) and step < len(document) else None
            )
        else:
            document = document.get(step) if isinstance(document, Mapping) else None
    return isinstance(document, Mapping) and bool(path)


def move_fields(document: Mapping[Any, Any], moves: Sequence[Move]) -> dict[Any, Any]:
    """Return a document with the values moved; an existing value at a target stays."""
    corrected: dict[Any, Any] = dict(document)
    for move in moves:
        item = _copy_path(corrected, move.source[:-1]).pop(move.source[-1], None)
        parent = _copy_path(corrected, move.target[:-1])
        if isinstance(parent, dict):
            parent.setdefault(move.target[-1], item)
    return corrected


def _copy_path(document: dict[Any, Any], path: Path) -> Any:
    """Return the object at a path; copies all objects on the path, and makes missing ones."""
    place: Any = document
    for name, after in zip(path, (*path[1:], "")[: len(path)], strict=True):
        if isinstance(place, Mapping) and isinstance(name, int):
            continue  # an object instead of a list
        step = _as_spelled(place, name)
        value = _at(place, step)
        place = _put(place, step, _copy(value) if value is not None else _empty(after))
    return place


def _as_spelled(place: Any, step: str | int) -> str | int:
    """Return a key in the case that the object has; unchanged if the object lacks the key."""
    if not isinstance(place, Mapping) or not isinstance(step, str):
        return step
    return next((key for key in (step, snake_free(step), snake(step)) if key in place), step)


def _empty(after: str | int) -> Any:
    return [] if isinstance(after, int) else {}


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _put(place: Any, step: str | int, value: Any) -> Any:
    """Store a value in an object or list and return it; None if ``place`` is neither."""
    if isinstance(place, dict):
        place[step] = value
    elif isinstance(place, list) and isinstance(step, int):
        place[step:] = [value, *place[step + 1 :]]
    else:
        return None
    return value


def _at(place: Any, step: str | int) -> Any:
    if isinstance(place, list):
        return place[step] if isinstance(step, int) and step < len(place) else None
    return place.get(step) if isinstance(place, Mapping) else None


def is_guessed(path: str, moves: Sequence[Move]) -> bool:
    """Whether a path is the guessed target of a value that is no list or object."""
    return any(
        move.is_guess and not isinstance(move.item, Mapping | list) and path == dotted(move.target)
        for move in moves
    )


_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def steps_of(path: str) -> Path:
    """Parse a dotted path to steps."""
    return tuple(int(match[1]) if match[1] else match[2] for match in _STEP.finditer(path))
