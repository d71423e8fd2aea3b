"""Converts values to JSON and back by their type hints; all of Trainshed's own files use it.

It supports named tuples, dataclasses, enums, tuples, mappings, None and scalars.  It ignores
unknown keys, and missing ones get their default: an older and a newer release can read each other's
files.  Supervisors import this module, so it imports little.
"""

import enum
import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
#: ``Optional[int]`` and, where Python is newer than 3.9, ``int | None``.
_UNIONS: Final = frozenset({Union, getattr(types, "UnionType", Union)})


def encode(value: Any) -> Any:
    """Return the value in the types that ``json.dumps`` accepts."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if names := _names(kind):
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple)):
        return [encode(element) for element in value]
    if kind is dict or isinstance(value, Mapping):
        return {key: encode(element) for key, element in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def decode(kind: type[T], document: Any) -> T:
    """Return the value that ``encode`` converted.  Raises ValueError for any other document."""
    try:
        value: T = _decoder(cast("Any", kind))(document)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a valid {kind.__name__}: {error}") from error
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the fields of a named tuple or a dataclass; no field for other types."""
    return getattr(kind, "_fields", ()) or tuple(getattr(kind, "__dataclass_fields__", ()))


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:  # noqa: PLR0911 - one for each kind of type
    origin, args = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        (inner,) = (arg for arg in args if arg is not type(None))
        return partial(_optional, _decoder(inner))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return partial(_list, _decoder(args[0]))
        return partial(_row, tuple(map(_decoder, args)))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_mapping, _decoder(args[1]))
    if _names(kind):
        hints = get_type_hints(kind)
        return partial(_record, kind, {name: _decoder(hints[name]) for name in _names(kind)})
    if kind is Any or issubclass(kind, enum.Enum):
        return (lambda value: value) if kind is Any else kind
    return partial(_scalar, kind)


def _optional(decoder: Callable[[Any], Any], json_value: Any) -> Any:
    return None if json_value is None else decoder(json_value)


def _list(decoder: Callable[[Any], Any], json_value: Any) -> tuple[Any, ...]:
    return tuple(map(decoder, _scalar(list, json_value)))


def _row(decoders: tuple[Callable[[Any], Any], ...], json_value: Any) -> tuple[Any, ...]:
    elements = _scalar(list, json_value)
    if len(elements) != len(decoders):
        raise TypeError(f"expected {len(decoders)} elements, got {len(elements)}")
    return tuple(decoder(element) for decoder, element in zip(decoders, elements))


def _mapping(decoder: Callable[[Any], Any], json_value: Any) -> dict[str, Any]:
    return {key: decoder(element) for key, element in _scalar(dict, json_value).items()}


def _record(kind: Any, decoders: Mapping[str, Callable[[Any], Any]], json_value: Any) -> Any:
    fields = _scalar(dict, json_value)
    return kind(**{name: read(fields[name]) for name, read in decoders.items() if name in fields})


def _scalar(kind: Any, json_value: Any) -> Any:
    if kind is float and type(json_value) is int:
        return float(json_value)  # a float written as 1.0 may be read as 1
    if not isinstance(json_value, kind):
        raise TypeError(f"expected {kind.__name__}, got {json_value!r:.80}")
    return json_value
