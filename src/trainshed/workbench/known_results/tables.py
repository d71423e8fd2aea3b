"""Reads results from CSV: our reports, exports of Optuna and MLflow, and plain tables.

Prefixes of columns say what they are.  A table without such columns is plain: each column is a
parameter, a metric or neither, by the names of the study.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainshed.model.faults import UsageFault
from trainshed.model.study_start import RawValue, ResultRow, UnnamedValue

#: Of our reports, of MLflow's and of Optuna's exports.
_PARAMETERS: Final = ("parameters.", "params.", "params_")
_METRICS: Final = ("metrics.", "values_")
#: Optuna's column of the only objective.
_VALUE: Final = "value"
#: What programs write between columns instead of commas.
_SEPARATORS: Final = (";", "\t")
_STATES: Final = ("state", "status")
#: The states of a finished trial or run.
SUCCESSES: Final = frozenset({"SUCCEEDED", "COMPLETE", "FINISHED"})


def read_csv(text: str, source: str) -> Iterator[ResultRow]:
    """Yield the results of a table with a line of names.  Raises UsageFault."""
    lines = read_cells(text, source)
    is_prefixed = any(column.startswith(_PARAMETERS) for _, cells in lines for column in cells)
    for name, cells in lines:
        yield _row_of(name, cells) if is_prefixed else ResultRow(name=name, cells=cells)


def read_cells(text: str, source: str) -> Sequence[tuple[str, Mapping[str, RawValue]]]:
    """Return the name and the cells of each line; empty cells are left out.  Raises UsageFault."""
    return list(_read_lines(text, source))


def _read_lines(text: str, source: str) -> Iterator[tuple[str, Mapping[str, RawValue]]]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = next(lines, [])
        _check_heading(heading, source)
        for cells in lines:
            if any(cells):
                name = f"line {lines.line_num} of {source}"
                yield name, dict(_pair(heading, cells, name))
    except csv.Error as error:
        raise UsageFault(f"{source} is not CSV: line {lines.line_num}: {error}") from error


def _check_heading(heading: Sequence[str], source: str) -> None:
    repeated = sorted({name for name in heading if heading.count(name) > 1 and name})
    if not any(heading):
        raise UsageFault(f"line 1 of {source} must have the names of the columns, got nothing")
    if len(heading) == 1 and any(separator in heading[0] for separator in _SEPARATORS):
        raise UsageFault(
            f"line 1 of {source} must have commas between the columns, got {heading[0][:60]}"
        )
    if repeated:
        raise UsageFault(f"line 1 of {source} has the column {repeated[0]} twice")


def _pair(heading: Sequence[str], cells: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    if len(cells) > len(heading):
        raise UsageFault(f"{name} has {len(cells)} cells, and line 1 has {len(heading)}")
    return ((column, cell) for column, cell in zip(heading, cells, strict=False) if column and cell)


def _row_of(name: str, cells: Mapping[str, RawValue]) -> ResultRow:
    metrics = _strip(cells, _METRICS)
    objectives = [metrics.pop(key) for key in sorted(metrics, key=_order) if key.isdecimal()]
    if _VALUE in cells:
        objectives = [cells[_VALUE]]
    return ResultRow(
        name=name,
        parameters=_strip(cells, _PARAMETERS),
        metrics=metrics,
        unnamed=tuple(UnnamedValue(value=_number(value, name)) for value in objectives),
        fault=_fault(cells),
    )


def _order(name: str) -> tuple[int, str]:
    return len(name), name


def _strip(cells: Mapping[str, RawValue], prefixes: Sequence[str]) -> dict[str, RawValue]:
    return {
        column.removeprefix(prefix): value
        for column, value in cells.items()
        for prefix in prefixes
        if column.startswith(prefix) and column != prefix
    }


def _number(value: RawValue, name: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageFault(f"{name}: the value must be a number, got {value}") from None


def _fault(cells: Mapping[str, RawValue]) -> str:
    states = [str(cells[column]) for column in _STATES if column in cells]
    return "" if not states or states[0].upper() in SUCCESSES else describe_state(states[0])


def describe_state(state: str) -> str:
    """Return why a trial or run that has not succeeded is no result."""
    return f"its state is {state.upper()}"
