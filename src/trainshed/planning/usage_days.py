"""Divides the time of an attempt among days and uses, so that every second has one day and one use.

An attempt starts first and stops last; lost time is the time before it stopped.  Where the rest of
its uses were is unknown, so each day gets its share of them.  Days are those of UTC.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from trainshed.planning.goodput import AttemptTimes, Goodput

DAY_S: Final = 86_400.0
_EPOCH: Final = date(1970, 1, 1)
#: Times of attempts are measured to less than this; shorter remainders are no time.
_TINY_S: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasurement:
    """What was measured of all GPUs of an attempt in a span of its time."""

    begin_s: float
    end_s: float
    idle_s: float = 0.0
    """Seconds in which a GPU ran no kernel, the mean of all GPUs of the attempt."""
    energy_j: float | None = None
    """Joules of all GPUs; None: not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUse:
    """The time of one machine of an attempt on one day."""

    day: int
    """Days since 1970."""
    seconds: Mapping[str, float]
    """By use (``model.time_use.HELD_USES``); their sum is the time that it was held."""
    energy_j: float | None = None
    """Joules of all GPUs of the attempt; None: not measured."""


@dataclass(frozen=True, slots=True)
class _Span:
    use: str
    begin_s: float
    end_s: float

    def overlap(self, begin_s: float, end_s: float) -> float:
        return max(0.0, min(self.end_s, end_s) - max(self.begin_s, begin_s))


def day_of(time_s: float) -> int:
    """Return the day of a time in seconds since 1970."""
    return int(time_s // DAY_S)


def day_number(day: date) -> int:
    """Return a day as days since 1970."""
    return (day - _EPOCH).days


def day_text(day: int) -> str:
    """Return a day such as 2026-11-01; days outside of the calendar as its nearest day."""
    last = (date.max - _EPOCH).days
    return (_EPOCH + timedelta(days=min(max(day, 0), last))).isoformat()


def today(now: datetime) -> int:
    """Return the day of a time in UTC."""
    return day_number(now.astimezone(UTC).date())


def day_uses(
    times: AttemptTimes, goodput: Goodput, measured: Iterable[GpuMeasurement] = ()
) -> Sequence[DayUse]:
    """Return the held time of an attempt by day; empty if it held nothing.

    A day without measurements has no idle time and no energy.
    """
    begin_s = times.placed_s
    end_s = begin_s + goodput.held_s
    if not end_s - begin_s > _TINY_S:
        return ()
    spans = _spans(begin_s, end_s, goodput)
    shares = _middle_shares(goodput)
    days = range(day_of(begin_s), day_of(end_s) + 1)
    by_day = _group_by_day(measured, days)
    uses = (_day_use(day, spans, shares, by_day[day], times.hangs) for day in days)
    return [use for use in uses if sum(use.seconds.values()) > 0]


def _group_by_day(
    measured: Iterable[GpuMeasurement], days: range
) -> Mapping[int, Sequence[GpuMeasurement]]:
    """Return the measurements of each of the days: those of a long job are many."""
    by_day: Mapping[int, list[GpuMeasurement]] = defaultdict(list)
    for part in measured:
        if part.end_s > part.begin_s:
            first = max(day_of(part.begin_s), days.start)
            last = min(day_of(part.end_s), days.stop - 1)
            for day in range(first, last + 1):
                by_day[day].append(part)
    return by_day


def _spans(begin_s: float, end_s: float, goodput: Goodput) -> Sequence[_Span]:
    """Return the starting, the middle (``""``), the lost and the stopping time, in this order."""
    started_s = min(begin_s + goodput.starting_s, end_s)
    stopping_s = max(end_s - goodput.stopping_s, started_s)
    lost_s = max(stopping_s - goodput.lost_s, started_s)
    return (
        _Span("starting", begin_s, started_s),
        _Span("", started_s, lost_s),
        _Span("lost", lost_s, stopping_s),
        _Span("stopping", stopping_s, end_s),
    )


def _middle_shares(goodput: Goodput) -> Mapping[str, float]:
    """Return the share of each use in the time between starting and the lost time."""
    rest = "unknown" if goodput.is_bound else "productive"
    seconds = {
        "stalled": goodput.stalled_s,
        "saving": goodput.saving_s,
        rest: goodput.productive_s,
    }
    total_s = sum(seconds.values())
    if total_s <= 0:
        return {rest: 1.0}
    return {use: used_s / total_s for use, used_s in seconds.items() if used_s > 0}


def _day_use(
    day: int,
    spans: Sequence[_Span],
    shares: Mapping[str, float],
    measured: Sequence[GpuMeasurement],
    hangs: Sequence[tuple[float, float]],
) -> DayUse:
    begin_s, end_s = day * DAY_S, (day + 1) * DAY_S
    seconds: dict[str, float] = {}
    for span in spans:
        if (used_s := span.overlap(begin_s, end_s)) > 0:
            parts = {span.use: 1.0} if span.use else shares
            for use, share in parts.items():
                seconds[use] = seconds.get(use, 0.0) + share * used_s
    middle = next(span for span in spans if not span.use)
    low_s, high_s = max(begin_s, middle.begin_s), min(end_s, middle.end_s)
    idle = _Idle(
        idle_s=_idle_s(measured, low_s, high_s),
        hung_s=sum(max(0.0, high - low) for low, high in _clip(hangs, low_s, high_s)),
        hung_idle_s=sum(_idle_s(measured, *hang) for hang in _clip(hangs, low_s, high_s)),
    )
    joules = [
        share * part.energy_j
        for part in measured
        if part.energy_j is not None and (share := _share(part, begin_s, end_s)) > 0
    ]
    return DayUse(
        day=day, seconds=_move_idle(seconds, idle), energy_j=sum(joules) if joules else None
    )


def _share(part: GpuMeasurement, begin_s: float, end_s: float) -> float:
    """Return the share of a measurement's span that is between two times."""
    overlap_s = min(part.end_s, end_s) - max(part.begin_s, begin_s)
    return max(0.0, overlap_s) / (part.end_s - part.begin_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    """How long GPUs were idle on a day between starting and stopping, and during hangs."""

    idle_s: float
    hung_s: float
    hung_idle_s: float


def _idle_s(measured: Sequence[GpuMeasurement], begin_s: float, end_s: float) -> float:
    return sum(_share(part, begin_s, end_s) * part.idle_s for part in measured)


def _clip(
    hangs: Sequence[tuple[float, float]], begin_s: float, end_s: float
) -> Iterator[tuple[float, float]]:
    """Yield the parts of hangs between two times; hangs of replicas at one time are one."""
    done_s = begin_s
    for low, high in sorted(hangs):
        if max(low, done_s) < min(high, end_s):
            yield max(low, done_s), min(high, end_s)
            done_s = min(high, end_s)


def _move_idle(seconds: dict[str, float], idle: _Idle) -> Mapping[str, float]:
    """Count idle time as such, as far as it would count as stalled, productive or unknown.

    Stalled time becomes idle as far as a GPU was idle during hangs, so that a report of a hang
    does not reduce the idle time.  A GPU is idle while its job saves or makes a slow step too; such
    time is not counted twice.
    """
    stalled_s = seconds.get("stalled", 0.0)
    slow_s = max(0.0, stalled_s - idle.hung_s)
    hung_idle_s = min(idle.hung_idle_s, stalled_s)
    rest_s = idle.idle_s - hung_idle_s - slow_s - seconds.get("saving", 0.0)
    _move_to_idle(seconds, "stalled", hung_idle_s)
    rest_s -= _move_to_idle(seconds, "productive", rest_s)
    _move_to_idle(seconds, "unknown", rest_s)
    return {use: used_s for use, used_s in seconds.items() if used_s > 0}


def _move_to_idle(seconds: dict[str, float], use: str, idle_s: float) -> float:
    """Let time of a use count as idle, as far as there is some; return how much."""
    moved_s = min(seconds.get(use, 0.0), max(0.0, idle_s))
    if moved_s > 0:
        seconds[use] -= moved_s
        seconds["idle"] = seconds.get("idle", 0.0) + moved_s
    return moved_s
