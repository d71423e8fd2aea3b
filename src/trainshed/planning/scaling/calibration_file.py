"""The file of a calibration: TOML, schema 1 (docs/sources/planner.md 9).

Reading is strict: an invalid field is refused by its name.  Only the runs are read: ``[fit]`` is
written for users and computed again from the runs.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any, Final, get_type_hints

from trainshed.model.texts import shorten_repr
from trainshed.model.typed_numbers import FIGURE_MAX, FIGURE_MIN
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.columns import FLAG, TEXT, ValueCheck, is_number
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training

SCHEMA: Final = 1
_HEAD: Final = "# Short runs of one training on one kind of host (trainshed plan calibrate)."
#: The most runs of a file.
_RUNS_MAX: Final = 64
_COUNT_MOST: Final = 10**9


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _COUNT_MOST


#: The checks of fields by their types.
_CHECKS: Final[Mapping[type, ValueCheck]] = {
    float: ValueCheck(
        f"a number (0, or between {FIGURE_MIN:g} and {FIGURE_MAX:g})",
        lambda value: is_number(value) and value >= 0,
    ),
    int: ValueCheck(f"a whole number up to {_COUNT_MOST}", _is_count),
    str: TEXT,
    bool: FLAG,
}


def written(calibration: Calibration) -> str:
    """Write a calibration as text."""
    return "\n".join(_lines(calibration)) + "\n"


def _lines(calibration: Calibration) -> Iterator[str]:
    yield _HEAD
    yield f"schema = {SCHEMA}"
    yield from _rows({"date": calibration.date, "trainer_digest": calibration.trainer_digest})
    yield from _table("[training]", calibration.training)
    yield from _table("[host]", calibration.host)
    for run in calibration.runs:
        yield from _table("[[run]]", run)
    yield "\n[fit]"
    yield from _rows({"residual": calibration.fitted.residual})
    yield "\n[fit.values]"
    yield from _rows(calibration.fitted.values)


def _table(head: str, value: Any) -> Iterator[str]:
    yield f"\n{head}"
    yield from _rows({field.name: getattr(value, field.name) for field in fields(value)})


def _rows(row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        yield f"{name} = {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return f'"{_escaped(str(value))}"'


def _escaped(text: str) -> str:
    sound = text.encode("utf-8", "replace").decode()  # lone surrogates become question marks
    plain = sound.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08X}" for character in plain
    )


def read(text: str) -> Calibration:
    """Read the calibration of a text.  Raises ValueError with the field at fault."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"the text is not valid TOML: {error}") from None
    if document.get("schema") != SCHEMA:
        schema = document.get("schema", "none")
        raise ValueError(f"schema must be {SCHEMA}, got {schema!r}")
    _only(
        document, {"schema", "date", "trainer_digest", "training", "host", "run", "fit"}, "the file"
    )
    training = _value(Training, document.get("training"), "training")
    runs = document.get("run", [])
    if not isinstance(runs, list) or len(runs) > _RUNS_MAX:
        raise ValueError(f"run must be at most {_RUNS_MAX} tables [[run]]")
    calibration = calibrated(
        training,
        _value(HostKind, document.get("host"), "host"),
        [_run(row, number) for number, row in enumerate(runs, 1)],
    )
    return replace(
        calibration,
        trainer_digest=_field(str, document.get("trainer_digest", ""), "trainer_digest"),
        date=_field(str, document.get("date", ""), "date"),
    )


def _run(row: Any, number: int) -> Run:
    """Build a run.  Raises ValueError for a wrong field, or if its hosts may have been one machine.

    Releases that did not write ``machines`` also learned from replicas that shared a machine, and
    took what these exchanged in memory for the rate of a link.
    """
    run: Run = _value(Run, row, f"run {number}")
    if run.kind is RunKind.JOB and run.hosts > 1 and not run.machines:
        raise ValueError(
            f"run {number}.machines must be {run.hosts}, one for each host of the job, got none: "
            "an older release wrote this run and may have learned it from replicas that shared a "
            f"machine; delete the table [[run]] {number}, or add machines = {run.hosts} if its "
            "hosts were separate machines"
        )
    return run


def _value(kind: type[Any], table: Any, where: str) -> Any:
    """Build a value of class ``kind`` from a table.  Raises ValueError for a wrong field."""
    types = get_type_hints(kind)
    _only(_mapping(table, where), types, where)
    values = {name: _field(types[name], table[name], f"{where}.{name}") for name in table}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _field(kind: Any, value: Any, where: str) -> Any:
    members = [member.value for member in kind] if issubclass(kind, StrEnum) else []
    check = (
        ValueCheck(f"one of {', '.join(members)}", members.__contains__)
        if members
        else _CHECKS[kind]
    )
    if not check.holds(value):
        raise ValueError(f"{where} must be {check.accepted}, got {shorten_repr(value)}")
    return kind(value)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table")  # noqa: TRY004 - a file's
    return value


def _only(table: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    if unknown := sorted(set(table) - set(names)):
        accepted = ", ".join(sorted(names))
        raise ValueError(f"{where} has an unknown key {unknown[0]!r}; accepted: {accepted}")
