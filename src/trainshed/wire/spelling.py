"""How names are written: the nearest known one, and a path in the document's own key case."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(name: str) -> str:
    """``workerPoolSpecs`` as ``worker_pool_specs``."""
    return _HUMP.sub("_", name).lower()


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name most like a word, whatever its case, hyphens and underscores; None if none is."""
    plain = {_plain(name): name for name in names}
    near = difflib.get_close_matches(_plain(word), plain, n=1)
    return plain[near[0]] if near else None


def hint(word: str, names: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing."""
    near = nearest(word, names)
    return f"; did you mean {near}?" if near else ""


def as_written(document: Any, path: str) -> str:
    """A dotted camelCase path, each key spelled as the document spells it where it has it."""
    place, words = document, []
    for step in path.split("."):
        name, bracket, index = step.partition("[")
        key = _key(place, name)
        words.append(f"{key}{bracket}{index}")
        place = place.get(key) if isinstance(place, Mapping) else None
        if bracket:
            position = int(index.rstrip("]"))
            place = place[position] if isinstance(place, list) and position < len(place) else None
    return ".".join(words)


def _key(place: Any, name: str) -> str:
    """Snake case is chosen only where the document has that key and not the other."""
    if isinstance(place, Mapping) and name not in place and snake(name) in place:
        return snake(name)
    return name


def _plain(word: str) -> str:
    return re.sub(r"[-_\s]", "", word).lower()
