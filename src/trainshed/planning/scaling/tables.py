"""Reads tables of measurements: curves, and cards of models and systems.

The same reader reads the published tables of ``benchmarks/scaling`` (columns: its README) and a
user's own TOML files.  A fault names the row and the column; wrong rows are left out.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.texts import count_noun, shorten_repr
from trainshed.planning.scaling.columns import FLAG, TEXT, ValueCheck, is_number

#: The most points of a curve: a fit of so many points takes seconds.
POINTS_MAX: Final = 256
#: Neighbouring points further apart than this, per accelerator, are in two units.
_UNIT_JUMP: Final = 100.0
_POINT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement of a curve."""

    accelerators: int
    hosts: int
    throughput: float
    """The throughput of the whole job."""
    batch: float = 0.0
    """Samples of one accelerator in one step; 0 where the source does not print it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve: one job, one system, one stack."""

    id: str
    points: tuple[Point, ...]
    family: str = ""
    system: str = ""
    model: str = ""
    framework: str = ""
    strategy: str = "allreduce"
    """The table's word: ``ps-cpu``, ``allreduce-tcp``, ..."""
    precision: str = ""
    params: float = 0.0
    """Count of parameters where the row's source prints it, else 0."""
    scaling: str = "weak"
    data: str = "real"
    metric: str = "samples/s"
    suspect: bool = False
    verified: bool = False
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Sizes of a model, in millions of parameters."""

    name: str
    params: float
    largest: float = 0.0
    """The parameters of its largest variable; 0 if unknown."""
    dense: bool = True
    """Whether each step sends a gradient for each parameter."""
    src: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCard:
    """One kind of host and its network, nominal."""

    name: str
    accelerator: str
    per_host: int
    intra: str = ""
    network_gbps: float = 0.0
    network: str = "none"
    src: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCard:
    """A link inside a host."""

    name: str
    gbytes: float
    """Nominal, GB/s one way of one accelerator."""
    src: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The content of all tables."""

    series: tuple[Series, ...] = ()
    models: Mapping[str, ModelCard] = field(default_factory=dict)
    systems: Mapping[str, SystemCard] = field(default_factory=dict)
    links: Mapping[str, LinkCard] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """A sentence for each row that was not read."""


def measured(text: str, name: str = "the table") -> tuple[Series, ...]:
    """Read the curves of a user's own table.  Raises UsageFault with all its faults."""
    tables = read({name: text})
    if tables.faults:
        raise UsageFault("; ".join(tables.faults))
    if not tables.series:
        raise UsageFault(f"{name} has no [[series]]; each needs an id and points")
    return tables.series


def read(texts: Mapping[str, str]) -> Tables:
    """Read the tables with these names; ``faults`` of the result describe wrong rows."""
    faults: list[str] = []
    rows = [row for name, text in texts.items() for row in _rows(name, text, faults)]
    entries: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for kind, where, row in rows:
        row_faults = list(_faults_of(kind, where, row))
        faults += row_faults
        if not row_faults:
            entries[kind].append(_KINDS[kind].build(row))
    series = tuple(entries["series"])
    return Tables(
        series=_drop_duplicates(series, faults),
        models={card.name: card for card in entries["model"]},
        systems={card.name: card for card in entries["system"]},
        links={card.name: card for card in entries["intra"]},
        faults=tuple(faults),
    )


def _rows(name: str, text: str, faults: list[str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        faults.append(f"{name} is not valid TOML: {error}")
        return
    for kind, rows in document.items():
        if kind in _NOTES:
            continue
        if kind not in _KINDS or not isinstance(rows, list):
            faults.append(f"{name} has no table [[{kind}]]; it may have {_join_names(_KINDS)}")
            continue
        for place, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                faults.append(f"{name}, [[{kind}]] {place}: not a table of columns")
                continue
            yield kind, _where(name, kind, place, row), row


def _where(name: str, kind: str, place: int, row: Mapping[str, Any]) -> str:
    name_in_row = row.get("id", row.get("name"))
    return (
        f"{name}, {kind} {name_in_row if isinstance(name_in_row, str) and name_in_row else place}"
    )


def _drop_duplicates(series: tuple[Series, ...], faults: list[str]) -> tuple[Series, ...]:
    """Return the first curve of each id; each further one is a fault."""
    by_id: dict[str, Series] = {}
    for curve in series:
        if curve.id in by_id:
            faults.append(f"series {curve.id}: id is given twice; each curve needs its own")
        by_id.setdefault(curve.id, curve)
    return tuple(by_id.values())


_COUNT_MOST: Final = 10**7


def _is_count(value: Any) -> bool:
    return is_number(value) and value == int(value) and 1 <= value <= _COUNT_MOST


def _is_unit(value: Any) -> bool:
    is_single = isinstance(value, str) and not set(value) & set(",;|") and " or " not in value
    return is_single and (value.endswith("/s") or value.startswith("times "))


def _is_points(value: Any) -> bool:
    return bool(value) and all(isinstance(point, list) and len(point) == _POINT for point in value)


_NAME: Final = ValueCheck(
    "a text that is not empty", lambda value: value and isinstance(value, str)
)
_RATE: Final = ValueCheck("a number, 0 or more", lambda value: is_number(value) and value >= 0)
_POSITIVE: Final = ValueCheck("a number over 0", lambda value: is_number(value) and value > 0)
_COUNT: Final = ValueCheck(f"a whole number, 1 to {_COUNT_MOST}", _is_count)
_METRIC: Final = ValueCheck("one unit of throughput, as samples/s or tokens/s", _is_unit)
_DATA: Final = ValueCheck("real or synthetic", lambda value: value in ("real", "synthetic"))
_BATCHES: Final = ValueCheck(
    "a list of numbers over 0, one for each point",
    lambda value: value and isinstance(value, list) and all(map(_POSITIVE.holds, value)),
)
_POINTS: Final = ValueCheck(
    "a list of [accelerators, hosts, throughput]",
    lambda value: isinstance(value, list) and _is_points(value),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    required: tuple[str, ...]
    columns: Mapping[str, ValueCheck]
    build: Callable[[Mapping[str, Any]], Any]


def _faults_of(kind: str, where: str, row: Mapping[str, Any]) -> Iterator[str]:
    checks = _KINDS[kind].columns
    yield from (f"{where}: {name} is missing" for name in _KINDS[kind].required if name not in row)
    for name, value in row.items():
        if name not in checks:
            yield f"{where}: there is no column {name}; there are {_join_names(checks)}"
        else:
            yield from _refuse(where, name, checks[name], value)
    if kind == "series" and _POINTS.holds(row.get("points")):
        yield from _faults_of_points(where, row)


def _refuse(where: str, name: str, check: ValueCheck, value: Any) -> Iterator[str]:
    if not check.holds(value):
        yield f"{where}: {name} must be {check.accepted}, got {shorten_repr(value)}"


def _faults_of_points(where: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a curve's points, first of each, then of neighbouring points."""
    points = row["points"]
    if len(points) > POINTS_MAX:
        yield f"{where}: points must be at most {POINTS_MAX}, got {len(points)}; leave some out"
        return
    point_faults = [sentence for point in points for sentence in _faults_of_point(where, point)]
    yield from point_faults
    batches = row.get("local_batch")
    if isinstance(batches, list) and len(batches) != len(points):
        yield f"{where}: local_batch has {len(batches)} values for {len(points)} points"
    if not point_faults:
        yield from (
            sentence for two in pairwise(points) for sentence in _contradictions(where, *two)
        )


def _faults_of_point(where: str, point: list[Any]) -> Iterator[str]:
    accelerators, hosts, throughput = point
    is_count = _COUNT.holds(accelerators)
    yield from _refuse(where, "points: accelerators", _COUNT, accelerators)
    if is_count and not (_COUNT.holds(hosts) and hosts <= accelerators):
        accepted = f"1 to {accelerators}, one for each accelerator at most"
        yield f"{where}: points: hosts must be {accepted}, got {shorten_repr(hosts)}"
    yield from _refuse(where, "points: throughput", _POSITIVE, throughput)


def _contradictions(where: str, before: list[Any], after: list[Any]) -> Iterator[str]:
    """Yield the faults of two neighbouring points that contradict each other."""
    count, count_after = (int(before[0]), int(before[1])), (int(after[0]), int(after[1]))
    if count == count_after:
        hosts_text = count_noun(count[1], "host")
        yield f"{where}: points: {count[0]} accelerators on {hosts_text} are given twice"
        return
    if count > count_after:
        yield f"{where}: points: {count_after[0]} accelerators come after {count[0]}; sort them"
        return
    gain, ideal = after[2] / before[2], after[0] / before[0]
    if gain > _UNIT_JUMP * ideal or gain < 1 / _UNIT_JUMP:
        yield (
            f"{where}: points: throughput goes from {before[2]:g} to {after[2]:g} between"
            f" {before[0]} and {after[0]} accelerators: use one unit for all points"
        )


def _join_names(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names))


def _series(row: Mapping[str, Any]) -> Series:
    columns = {k: v for k, v in row.items() if k not in {"points", "batch_per_acc", "local_batch"}}
    batches = row.get("local_batch") or [row.get("batch_per_acc", 0.0)] * len(row["points"])
    points = tuple(
        Point(accelerators=int(n), hosts=int(h), throughput=float(rate), batch=float(batch))
        for (n, h, rate), batch in zip(row["points"], batches, strict=True)
    )
    return Series(points=points, **columns)


_REQUIRED: Final[Mapping[Any, ValueCheck]] = {str: _NAME, int: _COUNT, float: _POSITIVE}
_OPTIONAL: Final[Mapping[Any, ValueCheck]] = {str: TEXT, int: _COUNT, float: _RATE, bool: FLAG}


def _kind_of(
    row: type[Any], build: Callable[[Mapping[str, Any]], Any] | None = None, **checks: ValueCheck
) -> _Kind:
    """Return the columns of a row: its fields, checked by ``checks`` or by their types."""
    required = tuple(one.name for one in fields(row) if one.default is MISSING)
    by_type = {
        one.name: (_REQUIRED if one.name in required else _OPTIONAL)[one.type]
        for one in fields(row)
        if one.name not in checks
    }
    columns = {**by_type, **checks}
    return _Kind(required=required, columns=columns, build=build or (lambda cells: row(**cells)))


_KINDS: Final[Mapping[str, _Kind]] = {
    "series": _kind_of(
        Series,
        _series,
        points=_POINTS,
        metric=_METRIC,
        data=_DATA,
        params=_POSITIVE,
        batch_per_acc=_POSITIVE,
        local_batch=_BATCHES,
    ),
    "model": _kind_of(ModelCard),
    "system": _kind_of(SystemCard),
    "intra": _kind_of(LinkCard),
}
#: Tables for people and for benchmarks, which are not read.
_NOTES: Final = frozenset({"record", "example", "result", "pair"})
