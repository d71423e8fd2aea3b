"""Finds the right place of a misplaced or misspelled field, and corrects the document.

A missing indentation breaks many rules by one mistake.  The mistake is reported at its place, and
all else is judged in the corrected document, so that its consequences are not reported.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.spelling import letters_of
from trainshed.wire.fields import FieldInfo, MessageInfo, Table
from trainshed.wire.parsed import snake

#: Fields of any content that hold a message all the same.
BODIES: Final = {("TrainingPipeline", "trainingTaskInputs"): "CustomJobSpec"}

#: Messages that are documents of their own and belong in a larger one: its name, and the field.
OUTER: Final = {"CustomJobSpec": ("CustomJob", "jobSpec")}

#: How many possible places of a field a message names.
PLACES_MAX: Final = 4

#: A place in a document: keys, and positions in lists.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A value at the wrong place, and the right place."""

    source: Path
    target: Path
    item: Any = None
    is_guess: bool
    """Whether the key does not exist, and the nearest one is assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The place of a misplaced field: a sentence, the full path, and the place if it is one."""

    sentence: str
    accepted: str
    target: Path | None


class MessageFields:
    """All fields below a document's message, by their plain names."""

    def __init__(self, table: Table, root: str) -> None:
        """Walk through the messages below ``root``; no message is entered inside of itself."""
        self._root = root
        self._table = table
        self._by_name: dict[str, list[tuple[tuple[str, ...], FieldInfo]]] = {}
        self._repeated: dict[tuple[str, ...], bool] = {}
        self._walk(table.messages[root], (), (root,))

    def _walk(self, info: MessageInfo, path: tuple[str, ...], above: tuple[str, ...]) -> None:
        for field in info.fields:
            if field.refused or field.is_output:
                continue
            self._by_name.setdefault(letters_of(field.json_name), []).append((path, field))
            inner = field.type if field.kind == "message" and not field.value else ""
            inner = BODIES.get((info.name, field.json_name), inner)
            if inner in self._table.messages and inner not in above:
                below = (*path, field.json_name)
                self._repeated[below] = field.is_repeated
                self._walk(self._table.messages[inner], below, (*above, inner))

    def find(
        self, key: str, at: Path, document: Mapping[Any, Any], document_at: Path = ()
    ) -> Destination | None:
        """Return the place for a field of this name that stands at ``at``; None if there is none.

        ``document_at`` is where the document lies below the root.
        """
        here = tuple(snake_free(step) for step in at if isinstance(step, str))
        rows = [
            (path, field) for path, field in self._by_name.get(letters_of(key), ()) if path != here
        ]
        if not rows:
            return self._outer(key)
        near = min(_distance(here, path) for path, _ in rows)
        rows = [row for row in rows if _distance(here, row[0]) == near]
        places = [self._place_path(path, at, is_snake="_" in key) for path, _ in rows]
        above = len(document_at)
        written = [place for place in places if _holds(document, place[above:])]
        places = written or places
        field = rows[0][1]
        name = field.name if "_" in key else field.json_name
        target = (*places[0], name) if len(places) == 1 else None
        accepted = _or([dotted((*place, name)) for place in places[:PLACES_MAX]])
        return Destination(sentence=_sentence(name, places, at), accepted=accepted, target=target)

    def inner_names(self) -> frozenset[str]:
        """The plain names of the fields that stand below the first level, and only there."""
        return frozenset(
            name for name, rows in self._by_name.items() if all(path for path, _ in rows)
        )

    def _place_path(self, path: tuple[str, ...], at: Path, *, is_snake: bool) -> Path:
        """The path in the caller's spelling, at the positions where the field stands now."""
        shared, place = _share_prefix(path, at)
        steps: list[str | int] = list(place)
        for count in range(shared + 1, len(path) + 1):
            steps.append(snake(path[count - 1]) if is_snake else path[count - 1])
            if self._repeated[path[:count]]:
                steps.append(0)
        return tuple(steps)

    def _outer(self, key: str) -> Destination | None:
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
    """A key in camelCase."""
    head, *rest = step.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def _distance(here: Sequence[str], there: Sequence[str]) -> int:
    shared = 0
    for one, other in zip(here, there, strict=False):
        if one != other:
            break
        shared += 1
    return len(here) + len(there) - 2 * shared


def _share_prefix(path: tuple[str, ...], at: Path) -> tuple[int, Path]:
    """Count the steps that both paths share; return that part of ``at``, positions included."""
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


def _sentence(name: str, places: Sequence[Path], at: Path) -> str:
    place = places[0]
    if at[: len(place)] == place and len(at) > len(place):
        beside = dotted((at[len(place)],))
        where = f"in {dotted(place)}" if place else "at the top level"
        return f"{name} belongs {where}, beside {beside}"
    return f"{name} belongs below {_or([dotted(path) for path in places[:PLACES_MAX]])}"


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def dotted(path: Path) -> str:
    """A path as messages write it: ``workerPoolSpecs[0].machineSpec``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _holds(document: Any, path: Path) -> bool:
    """Whether the document has an object at a path."""
    for step in path:
        if isinstance(step, int):
            if isinstance(document, Mapping):
                continue  # an object in place of a list
            document = (
                document[step] if isinstance(document, list) and step < len(document) else None
            )
        else:
            document = document.get(step) if isinstance(document, Mapping) else None
    return isinstance(document, Mapping) and bool(path)


def move_fields(document: Mapping[Any, Any], moves: Sequence[Move]) -> dict[Any, Any]:
    """The document with each value where it was meant; a place that is taken stays as it is."""
    meant: dict[Any, Any] = dict(document)
    for move in moves:
        item = _own(meant, move.source[:-1]).pop(move.source[-1], None)
        below = _own(meant, move.target[:-1])
        if isinstance(below, dict):
            below.setdefault(move.target[-1], item)
    return meant


def _own(document: dict[Any, Any], path: Path) -> Any:
    """The object at a path, copied on the way down, and made where nothing is there."""
    place: Any = document
    for name, after in zip(path, (*path[1:], "")[: len(path)], strict=True):
        if isinstance(place, Mapping) and isinstance(name, int):
            continue  # an object in place of a list
        step = _as_spelled(place, name)
        value = _at(place, step)
        place = _put(place, step, _copy(value) if value is not None else _empty(after))
    return place


def _as_spelled(place: Any, step: str | int) -> str | int:
    """A key in the case in which the object has it, where it has it in one of both."""
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
    """Store a value in an object or a list; None where the place is neither."""
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
    """Whether a path is a place that was only guessed for a single value."""
    return any(
        move.is_guess and not isinstance(move.item, Mapping | list) and path == dotted(move.target)
        for move in moves
    )


_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def steps_of(path: str) -> Path:
    """A dotted path as steps."""
    return tuple(int(match[1]) if match[1] else match[2] for match in _STEP.finditer(path))
