"""Reads the text of a job, YAML or JSON, one document or several, into plain mappings.

A syntax fault has its line and column.  The dialects interpret the fields.  YAML is read as JSON: a
date stays text, and a duplicate key is an error.  Each document can locate its values in the text.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainshed.model.json_reader import DEPTH_MAX
from trainshed.wire.text_nodes import DocumentFault, TextNode, position_at
from trainshed.wire.text_nodes_json import json_node


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """One job of a text.  ``position`` counts from 1 within its source."""

    source: str
    position: int
    content: dict[str, Any]
    text: str
    """The text of all documents of the source."""
    make_node: Callable[[], TextNode]
    """Returns the places of the document's values in the text."""


def read_documents(text: str, source: str) -> tuple[JobDocument, ...]:
    """Return all documents of a text, which messages call ``source``.  Raises DocumentFault."""
    documents = [
        JobDocument(
            source=source,
            position=position,
            content=_mapping(content, source),
            text=text,
            make_node=make_node,
        )
        for position, (content, make_node) in enumerate(_contents(text, source), start=1)
        if content is not None
    ]
    if not documents:
        raise DocumentFault(f"{source} is empty: it has no job")
    return tuple(documents)


def _mapping(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise DocumentFault(f"{source} must be a mapping of fields, got {kind}")
    return content


_Content = tuple[Any, Callable[[], TextNode]]


def _contents(text: str, source: str) -> Iterator[_Content]:
    """Parse a text.  JSON is tried first if the text begins with ``{``: it is ten times faster."""
    if source.endswith(".json"):
        yield _json(text, source), lambda: json_node(text)
        return
    if text.lstrip()[:1] == "{":
        try:
            content = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            content = None  # let the YAML reader try, or describe the error
        if content is not None and _is_shallow(content):
            yield content, lambda: json_node(text)
            return
    from trainshed.wire import yaml_documents  # noqa: PLC0415  # PyYAML costs a third of --help

    yield from yaml_documents.load_located(text, source)


def _json(text: str, source: str) -> Any:
    if not text.strip():
        return None
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise DocumentFault(
            f"cannot read {source}: line {error.lineno}, column {error.colno}: broken JSON: "
            f"{error.msg}",
            position_at(text, error.pos),
        ) from error
    except ValueError as error:
        raise DocumentFault(f"cannot read {source}: {error}") from error
    except RecursionError as error:
        raise _too_deep(source) from error
    if not _is_shallow(content):
        raise _too_deep(source)
    return content


def _is_shallow(content: Any) -> bool:
    level = [content]
    for _ in range(DEPTH_MAX):
        nested = [node for node in level if isinstance(node, dict | list)]
        level = [
            item for node in nested for item in (node.values() if isinstance(node, dict) else node)
        ]
    return not level


def _too_deep(source: str) -> DocumentFault:
    return DocumentFault(f"cannot read {source}: it is nested too deeply, over {DEPTH_MAX} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return mapping
