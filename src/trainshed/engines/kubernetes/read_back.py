"""Compares a manifest with the object that the API answers, and lists fields that are not there.

Kueue, webhooks and the API itself add fields, which is not an error.  A field that is missing
is: a cluster with an older JobSet drops fields that it does not have.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes.quantities import is_same_quantity

#: Fields that identify an item of a list; the first that the item has counts.
_IDENTITIES: Final = ("name", "mountPath", "key")
#: Fields whose values, or whose own fields, are quantities.
_QUANTITIES: Final = frozenset({"limits", "requests"})
_QUANTITY: Final = "sizeLimit"
_LENGTH_MAX: Final = 100
_ABSENT: Final = object()


class MissingField(NamedTuple):
    """A field of a manifest that the API's answer lacks or has with another value."""

    path: str
    """The path of the field, such as ``spec.network.subdomain``."""
    sent: Any
    answered: Any = None
    """The value in the answer; None: the field is missing."""

    @property
    def text(self) -> str:
        """The field and its values, as text for messages."""
        answer = "nothing" if self.answered is None else _shorten(self.answered)
        return f"{self.path}: sent {_shorten(self.sent)}, got {answer}"


def list_missing_fields(sent: Any, answered: Any) -> tuple[MissingField, ...]:
    """List the fields of a manifest that an answer lacks or has changed, by path.

    Quantities are compared by their amounts.  Values appear in the result: do not use this
    function for a Secret.
    """
    return tuple(_compare(sent, answered, "", is_quantity=False))


def _compare(sent: Any, answered: Any, path: str, *, is_quantity: bool) -> Iterator[MissingField]:
    if isinstance(sent, Mapping) and isinstance(answered, Mapping):
        yield from _compare_mappings(sent, answered, path)
    elif _is_list(sent) and _is_list(answered) and _has_items(sent):
        yield from _compare_items(sent, answered, path)
    elif not _is_same(sent, answered, is_quantity=is_quantity):
        yield MissingField(path, sent, None if answered is _ABSENT else answered)


def _compare_mappings(
    sent: Mapping[str, Any], answered: Mapping[str, Any], path: str
) -> Iterator[MissingField]:
    are_quantities = path.rpartition(".")[2] in _QUANTITIES
    for name, value in sent.items():
        yield from _compare(
            value,
            answered.get(name, _ABSENT),
            _join(path, name),
            is_quantity=are_quantities or name == _QUANTITY,
        )


def _compare_items(
    sent: Sequence[Any], answered: Sequence[Any], path: str
) -> Iterator[MissingField]:
    """Compare each item with the most similar one of the same identity; others may be added."""
    for index, item in enumerate(sent):
        field, identity = _identify(item)
        item_path = f"{path}[{identity or index}]"
        results = [
            tuple(_compare(item, other, item_path, is_quantity=False))
            for other in answered
            if isinstance(other, Mapping) and other.get(field, "") == identity
        ]
        yield from min(results, key=len, default=(MissingField(item_path, item),))


def _identify(item: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name and the value of the field that identifies an item; ("", ""): none."""
    return next(((name, item[name]) for name in _IDENTITIES if name in item), ("", ""))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _has_items(items: Sequence[Any]) -> bool:
    """Return whether a list has only items with fields of their own."""
    return all(isinstance(item, Mapping) for item in items)


def _is_same(sent: Any, answered: Any, *, is_quantity: bool) -> bool:
    if is_quantity:
        return is_same_quantity(sent, answered)
    return type(sent) is type(answered) and bool(sent == answered)


def _join(path: str, name: str) -> str:
    """Add a name to a path; a name with dots or slashes is written in quotes."""
    is_plain = name.isidentifier()
    return f"{path}.{name}".lstrip(".") if is_plain else f"{path}['{name}']"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LENGTH_MAX else f"{text[: _LENGTH_MAX - 3]}..."
