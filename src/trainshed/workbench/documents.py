"""Reads job files: YAML or JSON, one document or several, into plain mappings.

A syntax fault (exit code 2) has the line and the column in its message.  The dialects interpret the
fields.  YAML is read as JSON: a date stays text, and a duplicate key is an error.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainshed.model.faults import UsageFault
from trainshed.model.json_reader import DEPTH_MAX
from trainshed.storage.folders import reason

STDIN = "-"

#: The size limit of requests.
BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """One job of a file.  ``position`` counts from 1 within its file."""

    source: str
    position: int
    content: dict[str, Any]


def read(path: str) -> tuple[JobDocument, ...]:
    """Return all documents of a file; ``-`` is the standard input.  Raises UsageFault."""
    text = read_text(path)
    documents = [
        JobDocument(source=path, position=position, content=_mapping(content, path))
        for position, content in enumerate(_contents(text, path), start=1)
        if content is not None
    ]
    if not documents:
        raise UsageFault(f"{path} is empty: it has no job")
    return tuple(documents)


def read_one(path: str) -> JobDocument:
    """Return the only document of a file.  Raises UsageFault if there are several."""
    documents = read(path)
    if len(documents) > 1:
        raise UsageFault(f"{path} must have one document, got {len(documents)}")
    return documents[0]


def read_text(path: str | Path) -> str:
    """Return the text of a file; the string ``-`` is the standard input.  Raises UsageFault."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise UsageFault(f"cannot read {path}: it is larger than {BYTES_MAX} bytes")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageFault(f"cannot read {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageFault(f"cannot read {path}: byte {error.start} is not UTF-8 text") from error


def _mapping(content: Any, path: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise UsageFault(f"{path} must be a mapping of fields, got {kind}")
    return content


def _contents(text: str, path: str) -> Iterator[Any]:
    """Parse a text.  JSON is tried first if the text begins with ``{``: it is ten times faster."""
    if path.endswith(".json"):
        yield _json(text, path)
        return
    if text.lstrip()[:1] == "{":
        try:
            content = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            content = None  # let the YAML reader try, or describe the error
        if content is not None and _is_shallow(content):
            yield content
            return
    from trainshed.workbench import yaml_documents  # noqa: PLC0415  # PyYAML costs a third of --help

    yield from yaml_documents.load_all(text, path)


def _json(text: str, path: str) -> Any:
    if not text.strip():
        return None
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise UsageFault(f"cannot read {path}: {position}: broken JSON: {error.msg}") from error
    except ValueError as error:
        raise UsageFault(f"cannot read {path}: {error}") from error
    except RecursionError as error:
        raise _too_deep(path) from error
    if not _is_shallow(content):
        raise _too_deep(path)
    return content


def _is_shallow(content: Any) -> bool:
    level = [content]
    for _ in range(DEPTH_MAX):
        nested = [node for node in level if isinstance(node, dict | list)]
        level = [
            item for node in nested for item in (node.values() if isinstance(node, dict) else node)
        ]
    return not level


def _too_deep(path: str) -> UsageFault:
    return UsageFault(f"cannot read {path}: it is nested too deeply, over {DEPTH_MAX} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return mapping
