"""The usage of an attempt's replicas and GPUs over time, as lines of its file ``usage.jsonl``.

A supervisor or a launcher writes the lines, and programs of the job may be able to change them.  So
every value is checked when a line is read, and a line with a wrong value is skipped.  A series that
is not measured is absent, never 0.  Standard library only: supervisors import this module.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Optional

#: The largest accepted line; ``encode_lines`` writes shorter ones.
LINE_BYTES_MAX: Final = 1 << 16
#: The largest accepted number without its sign: a step, an amount of bytes, a value of a trainer.
NUMBER_MAX: Final = 1e300
#: The largest accepted step: every integer up to it is a float too.
STEP_MAX: Final = 1 << 53
#: The number of values that a replica may report in one line, and the length of their names.
VALUES_MAX: Final = 32
NAME_LENGTH_MAX: Final = 128
#: Lines older than this become one line for each ``THIN_S`` seconds.
FULL_S: Final = 7 * 86_400.0
THIN_S: Final = 600.0
#: The longest time between two lines that is no gap, besides the time that the later one covers.
GAP_S: Final = 5.0


class Spread(NamedTuple):
    """The least value, the mean and the greatest value of some samples."""

    low: float
    mean: float
    high: float


class ReplicaUsage(NamedTuple):
    """The usage of one replica within a line; None: not measured."""

    cpu: Optional[Spread] = None
    """The cores in use."""
    memory: Optional[Spread] = None
    """The memory in use, in bytes."""
    read: Optional[Spread] = None
    """Bytes a second that the replica read from block devices."""
    written: Optional[Spread] = None
    """Bytes a second that the replica wrote to block devices."""
    processes: Optional[Spread] = None
    """The number of processes and threads."""
    step: Optional[tuple[int, int]] = None
    """The first and the last step that the program reported; the last may be less."""
    total: Optional[int] = None
    """The total of steps that the program reported last."""
    values: Mapping[str, Spread] = {}
    """The numbers that the program reported besides, by name."""


class GpuUsage(NamedTuple):
    """The usage of one GPU within a line; None: not measured."""

    use: Optional[Spread] = None
    """The share of time in which a kernel ran, from 0 to 1."""
    memory: Optional[Spread] = None
    """The memory in use, in bytes."""
    power: Optional[Spread] = None
    """The power in watts."""
    temperature: Optional[Spread] = None
    """The temperature in degrees Celsius."""
    energy_j: Optional[float] = None
    """The energy in joules."""
    task: Optional[str] = None
    """The task name of the replica that has the GPU; None: unknown."""


_NUMBERS: Final = frozenset({int, float})
#: The series of replicas and of GPUs that have a spread in each line.
REPLICA_SPREADS: Final = ("cpu", "memory", "read", "written", "processes")
GPU_SPREADS: Final = ("use", "memory", "power", "temperature")


class UsageLine(NamedTuple):
    """The usage of an attempt within some seconds; several lines may have the same time."""

    at: float
    """The end of the time, in seconds since 1970, by the clock of the writer's machine."""
    s: float
    """The length of the time in seconds."""
    replicas: Mapping[str, ReplicaUsage] = {}
    """The usage of the replicas by task name."""
    gpus: Mapping[str, GpuUsage] = {}
    """The usage of the GPUs by UUID."""


def encode_lines(line: UsageLine) -> list[bytes]:
    """Return a line as JSON, without newlines; several lines if one would be too long."""
    parts: list[tuple[str, str, str]] = [
        *(("replicas", name, _to_json(usage)) for name, usage in line.replicas.items()),
        *(("gpus", uuid, _to_json(usage)) for uuid, usage in line.gpus.items()),
    ]
    head = f'{{"at":{line.at:.3f},"s":{line.s:.6g}'
    lines: list[bytes] = []
    tables: dict[str, list[str]] = {}
    length = 0
    for table, name, text in parts:
        entry = f"{json.dumps(name)}:{text}"
        if length and length + len(entry) > LINE_BYTES_MAX // 2:
            lines.append(_join(head, tables))
            tables, length = {}, 0
        tables.setdefault(table, []).append(entry)
        length += len(entry)
    return [*lines, _join(head, tables)]


def _join(head: str, tables: Mapping[str, Sequence[str]]) -> bytes:
    rest = "".join(f',"{name}":{{{",".join(entries)}}}' for name, entries in tables.items())
    return f"{head}{rest}}}".encode()


def _to_json(usage: Any) -> str:
    """Return the measured fields as JSON; an encoder of ``json`` would need more memory."""
    fields = [(name, getattr(usage, name)) for name in usage._fields]
    entries = [f'"{name}":{_value_to_json(value)}' for name, value in fields if value or value == 0]
    return f"{{{','.join(entries)}}}"


def _value_to_json(value: Any) -> str:
    """Round numbers to 4 digits, which is enough for a curve; integers stay as they are."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)}:{_value_to_json(inner)}" for name, inner in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return f"[{','.join(map(_value_to_json, value))}]"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def parse_line(data: bytes) -> UsageLine | None:
    """Return the line, or None if it is cut off, too long, or has a wrong value."""
    if len(data) > LINE_BYTES_MAX:
        return None
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        document = json.loads(data)
        return UsageLine(
            _check(document["at"]),
            _check(document["s"]),
            {
                _check_name(name): _parse_replica(usage)
                for name, usage in document.get("replicas", {}).items()
            },
            {
                _check_uuid(uuid): _parse_gpu(usage)
                for uuid, usage in document.get("gpus", {}).items()
            },
        )
    return None


def parse_lines(lines: Iterable[bytes]) -> list[UsageLine]:
    """Return the valid lines in the order of their times, equal ones once.

    They are out of order after the clock of their machine was set back.
    """
    usage_lines = [line for data in dict.fromkeys(lines) if (line := parse_line(data)) is not None]
    return sorted(usage_lines, key=lambda line: line.at)


def _parse_replica(document: Any) -> ReplicaUsage:
    values = document.get("values", {})
    step = document.get("step")
    return ReplicaUsage(
        **_parse_spreads(document, REPLICA_SPREADS),
        step=None if step is None else _parse_steps(step),
        total=_parse_step(document["total"]) if "total" in document else None,
        values={
            _check_name(name): _parse_spread(spread, -NUMBER_MAX) for name, spread in values.items()
        },
    )


def _parse_gpu(document: Any) -> GpuUsage:
    energy_j = document.get("energy_j")
    return GpuUsage(
        **_parse_spreads(document, GPU_SPREADS),
        energy_j=None if energy_j is None else _check(energy_j),
        task=_check_name(document["task"]) if document.get("task") else None,
    )


def _parse_spreads(document: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: _parse_spread(document[name], 0.0) for name in names if name in document}


def _parse_spread(document: Any, number_min: float) -> Spread:
    low, mean, high = document
    if not {type(low), type(mean), type(high)} <= _NUMBERS:
        raise ValueError("a minimum, a mean and a maximum must be numbers")
    if not (
        number_min <= low <= NUMBER_MAX  # NaN is not between them
        and number_min <= mean <= NUMBER_MAX
        and number_min <= high <= NUMBER_MAX
    ):
        raise ValueError(f"a number must be from {number_min:g} to {NUMBER_MAX:g}")
    return Spread(float(low), float(mean), float(high))


def _parse_steps(document: Any) -> tuple[int, int]:
    first, last = document
    return _parse_step(first), _parse_step(last)


def _parse_step(number: Any) -> int:
    step = read_step(number)
    if step is None:
        raise ValueError(f"a step must be an integer from 0 to {STEP_MAX}")
    return step


def _check(number: Any, number_min: float = 0.0) -> float:
    kind = type(number)
    if (kind is float or kind is int) and number_min <= number <= NUMBER_MAX:
        return float(number)  # NaN is not between them
    raise ValueError(f"a number must be from {number_min:g} to {NUMBER_MAX:g}")


def _check_name(name: str) -> str:
    """Check a name, which commands print, and which must have an encoding in UTF-8."""
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise ValueError(f"a name must have at most {NAME_LENGTH_MAX} characters, all printable")
    return name


def _check_uuid(uuid: str) -> str:
    """Check the UUID of a GPU; an empty one stands for machines without GPUs in the database."""
    if not _check_name(uuid):
        raise ValueError("the UUID of a GPU must not be empty")
    return uuid


class ReportedProgress(NamedTuple):
    """The last report of a program on its progress; None: the report does not say."""

    step: Optional[int] = None
    total: Optional[int] = None
    values: Mapping[str, float] = {}


def parse_progress(data: bytes) -> ReportedProgress:
    """Read the content of a progress file, which a program of the job wrote; never raises.

    Leaves out steps that are no integers from 0 to ``STEP_MAX``, values that are no finite numbers,
    and values beyond the first ``VALUES_MAX``.
    """
    document: Any = None
    with suppress(ValueError, RecursionError):
        document = json.loads(data)
    if not isinstance(document, dict):
        return ReportedProgress()
    step, total = read_step(document.pop("step", None)), read_step(document.pop("total", None))
    values: dict[str, float] = {}
    for name, number in document.items():
        if len(values) < VALUES_MAX and name.isprintable() and len(name) <= NAME_LENGTH_MAX:
            with suppress(ValueError):
                values[name] = _check(number, -NUMBER_MAX)
    return ReportedProgress(step, total, values)


def read_step(number: object) -> int | None:
    """Return a step of a report as an integer; None for any other value."""
    is_step = type(number) in (int, float) and 0 <= number <= STEP_MAX  # type: ignore[operator]
    if not is_step or number % 1:  # type: ignore[operator]
        return None
    return int(number)  # type: ignore[call-overload, no-any-return]


def merge_lines(lines: Sequence[UsageLine]) -> UsageLine:
    """Return one line for the time of all ``lines``, of which there is at least one, in order."""
    replicas: dict[str, list[tuple[float, ReplicaUsage]]] = {}
    gpus: dict[str, list[tuple[float, GpuUsage]]] = {}
    for line in lines:
        for name, replica in line.replicas.items():
            replicas.setdefault(name, []).append((line.s, replica))
        for uuid, gpu in line.gpus.items():
            gpus.setdefault(uuid, []).append((line.s, gpu))
    return UsageLine(
        lines[-1].at,
        sum({line.at: line.s for line in lines}.values()),
        {name: _merge_replica(rows) for name, rows in replicas.items()},
        {uuid: _merge_gpu(rows) for uuid, rows in gpus.items()},
    )


def _merge_replica(rows: Sequence[tuple[float, ReplicaUsage]]) -> ReplicaUsage:
    steps = [usage.step for _, usage in rows if usage.step is not None]
    totals = [usage.total for _, usage in rows if usage.total is not None]
    names = dict.fromkeys(name for _, usage in rows for name in usage.values)
    return ReplicaUsage(
        **_merge_each(rows, REPLICA_SPREADS),
        step=(steps[0][0], steps[-1][1]) if steps else None,
        total=totals[-1] if totals else None,
        values={
            name: spread
            for name in [*names][:VALUES_MAX]
            if (spread := _merge_spreads([(s, usage.values.get(name)) for s, usage in rows]))
        },
    )


def _merge_gpu(rows: Sequence[tuple[float, GpuUsage]]) -> GpuUsage:
    energies_j = [usage.energy_j for _, usage in rows if usage.energy_j is not None]
    return GpuUsage(
        **_merge_each(rows, GPU_SPREADS),
        energy_j=sum(energies_j) if energies_j else None,
        task=rows[-1][1].task,
    )


def _merge_each(rows: Sequence[tuple[float, Any]], names: Sequence[str]) -> dict[str, Any]:
    return {
        name: _merge_spreads([(s, getattr(usage, name)) for s, usage in rows]) for name in names
    }


def _merge_spreads(rows: Sequence[tuple[float, Spread | None]]) -> Spread | None:
    """Merge spreads; each mean counts as often as its line has seconds."""
    spreads = [(s or 1e-3, spread) for s, spread in rows if spread is not None]
    if not spreads:
        return None
    low = min(spread.low for _, spread in spreads)
    high = max(spread.high for _, spread in spreads)
    seconds = sum(s for s, _ in spreads)
    mean = sum(spread.mean * (s / seconds) for s, spread in spreads)
    return Spread(low, min(high, max(low, mean)), high)


def thin_lines(
    lines: Iterable[UsageLine], now_s: float, every_s: float = THIN_S
) -> Iterator[UsageLine]:
    """Merge the lines older than ``FULL_S`` to one for each ``every_s``; yield the others as is.

    ``lines`` are in order.  Lines on both sides of a gap stay apart.
    """
    group: list[UsageLine] = []
    for line in lines:
        if group and (line.at > now_s - FULL_S or not _are_of_one(group[-1], line, every_s)):
            yield merge_lines(group)
            group = []
        if line.at > now_s - FULL_S:
            yield line
        else:
            group.append(line)
    if group:
        yield merge_lines(group)


def _are_of_one(line: UsageLine, later: UsageLine, every_s: float) -> bool:
    is_gap = later.at - later.s - line.at > GAP_S and later.at != line.at
    return line.at // every_s == later.at // every_s and not is_gap
