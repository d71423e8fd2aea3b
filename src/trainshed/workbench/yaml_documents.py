"""YAML as JSON would have it: text keys, no dates, no key twice, a place in every error."""

from collections.abc import Iterator
from typing import Any

import yaml

from trainshed.model.faults import UsageFault

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
