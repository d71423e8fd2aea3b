"""Reads YAML with the values of JSON: text keys, no dates, no duplicates; errors have a line."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import yaml

from trainshed.model.json_reader import DEPTH_MAX
from trainshed.wire.text_nodes import (
    DocumentFault,
    Position,
    TextEntry,
    TextNode,
    TextSpan,
    position_at,
)

#: Begins the message of a document with too many values.
_EXPANDED: Final = "its aliases expand to over"
#: The most values of a document with its aliases expanded; a job has hundreds.
EXPANDED_MAX = 100_000

#: Only a text with this many of these can be too deep; other texts are not checked.
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
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(key, "a key must be a single word")
            if "\u00a0" in key.value:
                raise _at(key, f"the key {key.value!r} has a no-break space: write plain spaces")
            if key.tag != _MERGE:
                key.tag = _STR
                if key.value in keys:
                    raise _at(key, f"the key {key.value!r} is given twice: remove one")
                keys.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def construct_document(self, node: Any) -> Any:
        """Build a document whose size was checked: merging copies, and building recurses."""
        _Weights().weigh(node)
        return super().construct_document(node)


def load_located(text: str, source: str) -> Iterator[tuple[Any, Callable[[], TextNode]]]:
    """Yield all documents of a text, None for an empty one, and functions that return their places.

    Raises DocumentFault with the position.
    """
    try:
        if sum(map(text.count, _OPENERS)) > _OPENERS_HARMLESS:
            _check_depth(text)
        for content, node in _load(text):
            yield content, partial(_node, node)
    except yaml.MarkedYAMLError as error:
        raise _describe_broken(text, source, error) from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentFault(
            f"cannot read {source}: broken YAML: {' '.join(str(error).split())}",
            _find_unprintable(text),
        ) from error


def load_all(text: str, source: str) -> Iterator[Any]:
    """Yield all documents of a text; None for an empty one.  Raises DocumentFault."""
    for content, _ in load_located(text, source):
        yield content


def _load(text: str) -> Iterator[tuple[Any, Any]]:
    loader = Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield loader.construct_document(node), node
    finally:
        loader.dispose()


def _node(node: Any) -> TextNode:
    """Return the place of a node that was constructed, so that its merge keys are expanded."""
    span = TextSpan(node.start_mark.index, node.end_mark.index)
    if isinstance(node, yaml.ScalarNode):
        return TextNode(span=span)
    is_list = isinstance(node, yaml.SequenceNode)
    make = _elements if is_list else _pairs
    return TextNode(
        span=span, entries=partial(make, node), is_list=is_list, is_flow=bool(node.flow_style)
    )


def _elements(node: Any) -> Sequence[TextEntry]:
    return [TextEntry(i, None, _node(item)) for i, item in enumerate(node.value)]


def _pairs(node: Any) -> Sequence[TextEntry]:
    return [
        TextEntry(key.value, TextSpan(key.start_mark.index, key.end_mark.index), _node(value))
        for key, value in node.value
    ]


def _describe_broken(text: str, source: str, error: yaml.MarkedYAMLError) -> DocumentFault:
    mark = error.problem_mark or error.context_mark
    problem = f"{error.problem or error.context}{_advice(text, error, mark)}"
    if line := _tabbed_line(text, mark):
        problem = f"line {line} is indented with a tab; YAML accepts spaces only"
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
    position = Position(line, 1) if line else position_at(text, mark.index) if mark else None
    return DocumentFault(f"cannot read {source}: {where}: broken YAML: {problem}", position)


def _find_unprintable(text: str) -> Position | None:
    """Return the position of the first character that YAML does not allow; None without any."""
    match = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return position_at(text, match.start()) if match else None


_TAB: Final = re.compile(r" *\t")
_NO_BLANK: Final = re.compile(r"\s*(?:- )?([\w-]+):[^\s/]")


def _tabbed_line(text: str, mark: yaml.Mark | None) -> int:
    """Return the number of the line at fault, or above it, that has a tab before its text; or 0."""
    if mark is None:
        return 0
    lines = text.splitlines()
    numbers = (n for n in (mark.line + 1, mark.line) if 0 < n <= len(lines))
    return next((n for n in numbers if _TAB.match(lines[n - 1])), 0)


def _advice(text: str, error: yaml.MarkedYAMLError, mark: yaml.Mark | None) -> str:
    """Say what to write instead, if the line at fault or the one above shows the mistake."""
    lines = text.splitlines()[max(mark.line - 1, 0) : mark.line + 1] if mark else []
    if any("\u00a0" in line for line in lines) and "no-break" not in str(error):
        return "; the line has a no-break space: write plain spaces"
    if any("{{" in line for line in lines):
        return "; {{ }} is a template: put the value in its place"
    if any(line.lstrip().startswith("//") for line in lines):
        return "; a comment begins with #"
    if _EXPANDED in f"{error.problem}":
        return "; write fewer of the repeated values, and those without aliases"
    if "alias" in f"{error.context} {error.problem}":
        return "; put a value that begins with * or & in quotes"
    unspaced = next((match[1] for line in lines if (match := _NO_BLANK.match(line))), "")
    return f"; write a space after {unspaced}:" if unspaced else ""


def _check_depth(text: str) -> None:
    """Check the depth by the parser's events, without recursion, before nodes are built."""
    depth = 0
    for event in yaml.parse(text, Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise _too_deep(event)


def _at(place: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, place.start_mark)


def _too_deep(place: Any) -> yaml.MarkedYAMLError:
    return _at(place, f"nested deeper than {DEPTH_MAX}")


class _Weight(NamedTuple):
    values: int
    levels: int


class _Weights:
    """Computes the sizes of nodes with aliases and merges expanded, each shared node once."""

    def __init__(self) -> None:
        self._weights: dict[int, _Weight] = {}
        self._above: set[int] = set()
        self._has_aliases = False

    def weigh(self, node: Any) -> _Weight:
        """Return the weight of a node.  Raises for a node that is too deep, large or recursive."""
        if isinstance(node, yaml.ScalarNode):
            return _Weight(1, 0)
        if weight := self._weights.get(id(node)):
            self._has_aliases = True
            return weight
        if id(node) in self._above:
            raise _at(node, "an anchor contains itself")
        if len(self._above) >= DEPTH_MAX:
            raise _too_deep(node)
        self._above.add(id(node))
        weight = self._weights[id(node)] = self._sum(node)
        self._above.discard(id(node))
        return weight

    def _sum(self, node: Any) -> _Weight:
        is_map = isinstance(node, yaml.MappingNode)
        parts = [part for pair in node.value for part in pair] if is_map else node.value
        weights = [self.weigh(part) for part in parts]
        values = 1 + sum(weight.values for weight in weights)
        levels = 1 + max((weight.levels for weight in weights), default=0)
        if levels > DEPTH_MAX:
            raise _too_deep(node)
        if self._has_aliases and values > EXPANDED_MAX:
            raise _at(node, f"{_EXPANDED} {EXPANDED_MAX} values")
        return _Weight(values, levels)
