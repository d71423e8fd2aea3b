"""Reads the ``[[engine]]`` tables of the file, one for each engine.

All keys that are not in ``_KEYS`` are options; the factory of the engine's kind checks them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.config.settings import EngineSettings
from trainshed.config.values import Reader, WrongValue, text, texts
from trainshed.engines.registry import LOCAL
from trainshed.model.faults import UsageFault
from trainshed.model.labels import ENGINE_LABEL, WISH

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def read_engines(
    place: str, rows: Any, read: Callable[[str, Any, Reader], Any]
) -> tuple[EngineSettings, ...]:
    """Read the tables in order.  Raises UsageFault.

    ``read`` converts a value, and names its place in the file in errors.
    """
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageFault(f"{place} must be a list of tables: write [[engine]] above each")
    engines: list[EngineSettings] = []
    for position, row in enumerate(rows, 1):
        engines.append(_engine(f"{place} {position}", row, read))
        _check_last(f"{place} {position}", engines)
    return tuple(engines)


def _engine(
    place: str, row: Mapping[str, Any], read: Callable[[str, Any, Reader], Any]
) -> EngineSettings:
    if "kind" not in row:
        raise UsageFault(
            f"{place} has no kind; it needs one, such as {LOCAL.name!r}, 'slurm' or 'kubernetes'"
        )
    named = {"name": row["kind"], **row}
    values = {
        key: read(f"{place}.{key}", named[key], reader)
        for key, reader in _KEYS.items()
        if key in named
    }
    options = {key: value for key, value in row.items() if key not in _KEYS}
    if values["kind"] == LOCAL.name and options:
        keys = ", ".join(_KEYS)
        raise UsageFault(
            f"{place} has the key {min(options)!r}; the kind {LOCAL.name} is set in [fleet], "
            f"[isolation] and [hangs], and its table has only: {keys}"
        )
    return EngineSettings(**values, options=options)


def _check_last(place: str, engines: Sequence[EngineSettings]) -> None:
    *earlier, last = engines
    if last.name in {engine.name for engine in earlier}:
        raise UsageFault(f"{place}: there is another engine named {last.name!r}")
    if last.kind == LOCAL.name and any(engine.kind == LOCAL.name for engine in earlier):
        raise UsageFault(
            f"{place}: only one table may have the kind {LOCAL.name}; remove this one or the "
            "earlier one"
        )


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise WrongValue(
            "a lower-case letter, then up to 30 lower-case letters, digits and hyphens"
        )
    return value


def _wishes(value: Any) -> dict[str, str]:
    is_table = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    if not is_table or not all(_is_wish(key) for key in value):
        raise WrongValue(f'a table of labels that begin with "{WISH}", but not {ENGINE_LABEL}')
    return dict(value)


def _is_wish(key: str) -> bool:
    return key.startswith(WISH) and key != ENGINE_LABEL and bool(_LABEL.fullmatch(key))


def _environments(value: Any) -> dict[str, str]:
    is_table = isinstance(value, dict) and all(
        isinstance(python, str) and python.startswith("/") for python in value.values()
    )
    if not is_table:
        raise WrongValue(
            "a table from names of environments to absolute paths of interpreters on the nodes"
        )
    return dict(value)


_KEYS: Final[Mapping[str, Reader]] = {
    "name": _name,
    "kind": text,
    "regions": texts,
    "labels": _wishes,
    "environments": _environments,
}
