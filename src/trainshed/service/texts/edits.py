"""Edits of a job's text that set one value or rename one key, in YAML or JSON.

An edit is made only if the edited text reads as the document with that one change and no other:
anchors, merge keys and block scalars make many edits that look right wrong.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainshed.model.faults import UsageFault
from trainshed.service.texts.document_paths import like, value_at, with_value
from trainshed.wire.documents import JobDocument, read_documents
from trainshed.wire.text_nodes import TextEntry, TextNode, TextSpan, locate

#: Values that need no quotes, if YAML reads them as themselves.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


class Edit(NamedTuple):
    """A replacement of a part of a text."""

    span: TextSpan
    text: str

    def apply(self, text: str) -> str:
        """Return the edited text."""
        return text[: self.span.start] + self.text + text[self.span.end :]


def set_value(document: JobDocument, root: TextNode, path: str, value: Any) -> Edit | None:
    """Return the edit that sets a value, also a missing one; None if none is certain."""
    expected = with_value(document.content, path, value)
    if expected is None:
        return None
    new = like(value_at(document.content, path), value)
    located = locate(root, path)
    entry = located.entry
    if located.rest:
        edit = _insert(document.text, entry.value if entry else root, located.rest, new)
    elif entry is None or entry.value.entries is not None:
        return None
    else:
        edit = _replace(document.text, entry.value.span, new)
    return edit if edit and _reads_as(edit.apply(document.text), expected) else None


def set_values(document: JobDocument, values: Mapping[str, Any]) -> Edit | None:
    """Return one edit that sets several values by path; None if one of them is not certain."""
    text = document.text
    for path, value in values.items():
        [current] = read_documents(text, document.source)
        edit = set_value(current, current.make_node(), path, value)
        if edit is None:
            return None
        text = edit.apply(text)
    return _find_difference(document.text, text)


def _find_difference(old: str, new: str) -> Edit:
    """Return the smallest single edit that makes one text another one."""
    begin = _count_equal(old, new)
    end = _count_equal(old[begin:][::-1], new[begin:][::-1])
    return Edit(TextSpan(begin, len(old) - end), new[begin : len(new) - end])


def _count_equal(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def rename_key(document: JobDocument, root: TextNode, path: str, key: str) -> Edit | None:
    """Return the edit that gives the key at a path another name; None if none is certain."""
    located = locate(root, path)
    if located.entry is None or located.rest or located.entry.key_span is None:
        return None
    span = located.entry.key_span
    quote = document.text[span.start] if document.text[span.start] in "\"'" else ""
    edit = Edit(span, f"{quote}{key}{quote}")
    expected = _rename_in(document.content, path, str(located.entry.key), key)
    is_one = expected is not None and _reads_as(edit.apply(document.text), expected)
    return edit if is_one else None


def _rename_in(content: Mapping[str, Any], path: str, old: str, new: str) -> Any:
    """Return a document with another name of the key at a path; None if the name is taken."""
    changed = copy.deepcopy(dict(content))
    parent = value_at(changed, path.removesuffix(old).rstrip("."))
    if not isinstance(parent, dict) or old not in parent or new in parent:
        return None
    parent[new] = parent.pop(old)
    return changed


def _reads_as(text: str, expected: Any) -> bool:
    try:
        [document] = read_documents(text, "the edited text")
    except (UsageFault, ValueError):
        return False
    return bool(document.content == expected)


def _replace(text: str, span: TextSpan, value: Any) -> Edit | None:
    old = text[span.start : span.end]
    if not old or old[0] in "|>&*!":
        return None
    return Edit(span, _quote(value, old[0]))


def _quote(value: Any, quote: str) -> str:
    """Return a value as text for YAML or JSON, with the quotes of the old value."""
    if not isinstance(value, str) or quote == '"':
        return json.dumps(value, ensure_ascii=False)
    if quote == "'":
        return "'" + value.replace("'", "''") + "'"
    is_plain = _PLAIN.fullmatch(value) and _reads_as(f"a: {value}", {"a": value})
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _insert(text: str, parent: TextNode, rest: str, value: Any) -> Edit | None:
    """Return the edit that inserts a member before the first one of a mapping."""
    first = _first_member(parent)
    names = rest.split(".")
    if parent.is_list or "[" in rest or first is None or first.key_span is None:
        return None
    at = first.key_span.start
    if parent.is_flow:
        quote = '"' if text[at] == '"' else ""
        return Edit(TextSpan(at, at), f"{_write_flow(names, value, quote)},{_find_gap(text, at)}")
    indent = at - (text.rfind("\n", 0, at) + 1)
    lines = _write_block(names, value)
    return Edit(TextSpan(at, at), "".join(f"{line}\n{' ' * indent}" for line in lines))


def _first_member(parent: TextNode) -> TextEntry | None:
    """Return the first member that is in the mapping itself, not merged into it."""
    own = [
        entry
        for entry in parent.members()
        if entry.key_span and parent.span.start <= entry.key_span.start < parent.span.end
    ]
    return min(own, key=lambda entry: entry.key_span or parent.span, default=None)


def _find_gap(text: str, at: int) -> str:
    """Return the blanks before an offset, which separate members of JSON; else one blank."""
    before = text[:at]
    blanks = before[len(before.rstrip()) :]
    return blanks if "\n" in blanks else " "


def _write_flow(names: Sequence[str], value: Any, quote: str) -> str:
    name, *rest = names
    inner = (
        f"{{{_write_flow(rest, value, quote)}}}" if rest else json.dumps(value, ensure_ascii=False)
    )
    return f"{quote}{name}{quote}: {inner}"


def _write_block(names: Sequence[str], value: Any) -> Sequence[str]:
    parents = [f"{'  ' * depth}{name}:" for depth, name in enumerate(names[:-1])]
    return [*parents, f"{'  ' * len(parents)}{names[-1]}: {_quote(value, '')}"]


#: A region beside the pools, which files for gcloud may have; in a call it is the location.
_REGION: Final = re.compile(r"^region:.*\n", re.MULTILINE)


def wrap_spec(document: JobDocument, name: str) -> Edit | None:
    """Return the edit that makes a CustomJob of a CustomJobSpec; None if none is certain."""
    text = document.text
    spec = {key: value for key, value in document.content.items() if key != "region"}
    if text.lstrip().startswith("{"):
        new = f'{{"displayName": {json.dumps(name)}, "jobSpec": {text.strip()}}}\n'
    else:
        lines = _REGION.sub("", text).splitlines(keepends=True)
        indented = "".join(f"  {line}" if line.strip() else line for line in lines)
        new = f"displayName: {name}\njobSpec:\n{indented}"
    edit = Edit(TextSpan(0, len(text)), new)
    return edit if _reads_as(new, {"displayName": name, "jobSpec": spec}) else None
