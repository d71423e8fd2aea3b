"""The places of values in a JSON text that Python's reader has already accepted."""

import json
import re
from collections.abc import Iterator
from typing import Final

from trainshed.wire.text_nodes import TextEntry, TextNode, TextSpan

#: A text, a bracket, or another value; blanks, commas and colons are skipped.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')


def json_node(text: str) -> TextNode:
    """Return the places of a valid JSON document.  Its nesting is bounded by the reader."""
    tokens = _TOKEN.finditer(text)
    return _read(next(tokens), tokens)


def _read(token: re.Match[str], tokens: Iterator[re.Match[str]]) -> TextNode:
    if token[0] not in {"{", "["}:
        return TextNode(span=TextSpan(*token.span()))
    is_list = token[0] == "["
    members: list[TextEntry] = []
    for item in tokens:
        if item[0] in {"}", "]"}:
            break
        if is_list:
            members.append(TextEntry(len(members), None, _read(item, tokens)))
        else:
            value = _read(next(tokens), tokens)
            members.append(TextEntry(json.loads(item[0]), TextSpan(*item.span()), value))
    return TextNode(
        span=TextSpan(token.start(), item.end()),
        entries=lambda: members,
        is_list=is_list,
        is_flow=True,
    )
