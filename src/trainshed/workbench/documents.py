"""Reads job files: YAML or JSON, one document or several, into plain mappings.

A fault here is one of writing (exit code 2): the message has the line and the column.  What the
fields mean is the dialect's business.  YAML is read as the JSON it stands for: a date stays text,
and a key that is there twice is an error, where a plain reader would drop the first one silently.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainshed.model.faults import UsageFault
from trainshed.storage.folders import reason

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One job as it was written.  ``position`` counts from 1 within its file."""

    source: str
    position: int
    content: dict[str, Any]


def read(path: str) -> tuple[Document, ...]:
    """All documents of a file; ``-`` is the standard input.  Raises UsageFault."""
    text = _text(path)
    found = [
        Document(source=path, position=position, content=_mapping(content, path))
        for position, content in enumerate(_contents(text, path), start=1)
        if content is not None
    ]
    if not found:
        raise UsageFault(f"{path} is empty: it holds no job")
    return tuple(found)


def read_one(path: str) -> Document:
    """The only document of a file.  Raises UsageFault when there are several."""
    found = read(path)
    if len(found) > 1:
        raise UsageFault(f"{path} holds {len(found)} documents; a job is one")
    return found[0]


def _text(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageFault(f"cannot read {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageFault(f"cannot read {path}: byte {error.start} is not UTF-8 text") from error


def _mapping(content: Any, path: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise UsageFault(f"{path} holds {kind}; a job is a mapping of fields")
    return content


def _contents(text: str, path: str) -> Iterator[Any]:
    """JSON is tried first where the text begins like it: it reads ten times faster than YAML."""
    if path.endswith(".json"):
        yield _json(text, path)
        return
    if text.lstrip()[:1] == "{":
        try:
            yield json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            pass  # a flow mapping of YAML, several documents, or an error that YAML words better
        else:
            return

    yield from load_all(text, path)


def _json(text: str, path: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageFault(f"cannot read {path}: {where}: broken JSON: {error.msg}") from error
    except ValueError as error:
        raise UsageFault(f"cannot read {path}: {error}") from error
    except RecursionError as error:
        raise UsageFault(f"cannot read {path}: it is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return found


#: Deeper documents are refused; libyaml's reader would follow them until the stack is full.
DEPTH_MAX = 100

#: What aliases may expand a document to, in values: a job has hundreds.
EXPANDED_MAX = 100_000

#: Only a text with so many of these can be dangerously deep; others need not be looked through.
_OPENERS = ("[", "{", "- ", "? ")
_OPENERS_HARMLESS = 10_000

_STR = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"

# libyaml reads ten times faster; it is missing where PyYAML was built without it
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """A safe loader whose values are those of JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own way to configure a loader
        first: [pair for pair in pairs if pair[0] != _TIMESTAMP]
        for first, pairs in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002  # PyYAML's signature
        """Build a mapping, with every key as text and none of them twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(key, "a key must be a single word")
            if key.tag != _MERGE:
                key.tag = _STR
                if key.value in seen:
                    raise _at(key, f"the key {key.value!r} is there twice")
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def load_all(text: str, path: str) -> Iterator[Any]:
    """All documents of a text; None for an empty one.  Raises UsageFault with line and column."""
    try:
        if sum(map(text.count, _OPENERS)) > _OPENERS_HARMLESS:
            _check_depth(text)
        for content in yaml.load_all(text, Loader):
            if "*" in text:
                _check_aliases(content, path)
            yield content
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        problem = error.problem or error.context
        raise UsageFault(f"cannot read {path}: {where}: broken YAML: {problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageFault(f"cannot read {path}: broken YAML: {_one_line(error)}") from error


def _check_depth(text: str) -> None:
    """Walk through the events, which needs no stack, before anything is built of them."""
    depth = 0
    for event in yaml.parse(text, Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise _at(event, f"nested deeper than {DEPTH_MAX}")


def _at(place: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, place.start_mark)


def _check_aliases(content: Any, path: str) -> None:
    """Refuse anchors that hold themselves, or that expand to more than any job has."""
    if _expanded(content, {}, frozenset(), path) > EXPANDED_MAX:
        raise UsageFault(f"cannot read {path}: its aliases expand to over {EXPANDED_MAX} values")


def _expanded(value: Any, known: dict[int, int], above: frozenset[int], path: str) -> int:
    """How many values a value is once its aliases are written out; shared ones are counted once."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in above:
        raise UsageFault(f"cannot read {path}: an anchor holds itself")
    if id(value) not in known:
        items = value.values() if isinstance(value, dict) else value
        inner = above | {id(value)}
        known[id(value)] = 1 + sum(_expanded(item, known, inner, path) for item in items)
    return known[id(value)]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
