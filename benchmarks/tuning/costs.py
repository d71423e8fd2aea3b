"""Measures the time and the memory of suggestions by the default algorithm.

A suggestion is measured for growing numbers of trials of 20 dimensions: its goals are 20 ms at 100
trials and 60 ms at 1,000.  A later suggestion is the mean of ten, each after one more trial, with
the fits of the model among them.  Spaces of all kinds of parameters, two objectives and a limit are
measured beside it, without a goal.  The memory is the peak of a process that makes suggestions for
1,000 trials (``memory.py``); its goal is 20 MB above that of an earlier checkout.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.harness import Report, at_most
from benchmarks.tuning.peers import Ours, Peer
from benchmarks.tuning.spaces import category, double, integer
from trainshed.model.study import (
    SEARCH_RULE,
    Goal,
    Metric,
    ParameterSpec,
    Safety,
    Scale,
    StudySpec,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning import gaussian, suggest
from trainshed.tuning.random_search import random_point
from trainshed.tuning.space import space_of

SIZES: Sequence[int] = (50, 100, 200, 500, 1000)
_LATER_COUNT = 10

#: The kind of study that has goals.
DOUBLES: Final = "only DOUBLE"

#: The most milliseconds of a later suggestion, by the number of trials.
LATER_MAX_MS: Final[Mapping[int, float]] = {100: 20.0, 1000: 60.0}
#: The most megabytes above an earlier checkout.
MORE_MEMORY_MAX_MB: Final = 20.0
#: The numbers of objectives and of limits of the studies whose memory is measured.
_MEASURED: Final = {"one objective": (1, 0), "two objectives and a limit": (2, 1)}
_MEMORY: Final = Path(__file__).with_name("memory.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The processor time of a suggestion: the first after a server's start, and later ones."""

    kind: str
    trials: int
    first_ms: float
    next_ms: float


def growth(
    dimensions: int = 20, sizes: Sequence[int] = SIZES, kinds: Collection[str] = (DOUBLES,)
) -> list[Growth]:
    """Measure suggestions after each number of trials in ``sizes``, of studies of some kinds."""
    studies = {kind: _KINDS[kind](dimensions) for kind in kinds}
    for study in studies.values():  # load modules before measuring
        suggest.suggest(study, _trials(study, sizes[0]), 1, 0)
    return [_at(kind, study, size) for kind, study in studies.items() for size in sizes]


def measure(against: Path | None) -> Report:
    """Measure the time and the memory; ``against`` is an earlier checkout, or None."""
    others = [kind for kind in _KINDS if kind != DOUBLES]
    costs = [*growth(), *growth(sizes=(100, 1000), kinds=others)]
    return Report(goals=[*goals(costs), *memory(against)], lines=[*lines(costs)])


def goals(costs: Sequence[Growth]) -> Iterator[harness.Goal]:
    """Yield the later suggestions; the sizes with a limit are judged."""
    for cost in costs:
        limit = LATER_MAX_MS.get(cost.trials) if cost.kind == DOUBLES else None
        name = f"a suggestion at {cost.trials:,} trials, {cost.kind}"
        yield at_most(name, cost.next_ms, limit, "ms")


def lines(costs: Sequence[Growth]) -> Iterator[str]:
    """Yield a line for each size."""
    for cost in costs:
        spent = f"{cost.first_ms:6.0f} ms after a start, {cost.next_ms:6.0f} ms later"
        yield f"{cost.trials:6,} trials, {cost.kind}: {spent}"


def memory(against: Path | None) -> Iterator[harness.Goal]:
    """Yield the peak memories; compare them with those of the checkout ``against`` if given.

    Raises CalledProcessError if the checkout cannot make suggestions.
    """
    for name, metrics in _MEASURED.items():
        here = _memory_mb(Path(__file__).parents[2], metrics)
        if against is None:
            yield at_most(f"memory, {name}", here, None, "MB")
        else:
            before = _memory_mb(against.resolve(), metrics)
            note = f"{here:.0f} MB here, {before:.0f} MB there"
            more = f"memory above {against}, {name}"
            yield at_most(more, here - before, MORE_MEMORY_MAX_MB, "MB", note)


def _memory_mb(checkout: Path, metrics: tuple[int, int]) -> float:
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
    environment = {**os.environ, **threads, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(_MEMORY), str(checkout), *map(str, metrics)]
    return float(subprocess.check_output(command, env=environment, text=True))


def _at(kind: str, study: StudySpec, size: int) -> Growth:
    trials = _trials(study, size + _LATER_COUNT)
    gaussian.forget()
    first = _suggest_ms(study, trials[:size])
    later = [_suggest_ms(study, trials[: size + more + 1]) for more in range(_LATER_COUNT)]
    return Growth(kind=kind, trials=size, first_ms=first, next_ms=float(np.mean(later)))


def _suggest_ms(study: StudySpec, trials: Sequence[TrialRecord]) -> float:
    began = time.process_time()
    suggest.suggest(study, trials, 1, 0)
    return 1000 * (time.process_time() - began)


def _study(parameters: Iterable[ParameterSpec], *others: Metric) -> StudySpec:
    return StudySpec(
        metrics=(Metric(metric_id="loss", goal=Goal.MINIMIZE), *others),
        parameters=tuple(parameters),
        trial_count_max=2000,
        search_rule=SEARCH_RULE,
    )


def _doubles(dimensions: int) -> Iterator[ParameterSpec]:
    return (double(f"x{i}", 0, 1) for i in range(dimensions))


def _all_kinds(dimensions: int) -> Iterator[ParameterSpec]:
    for i in range(dimensions):
        yield (
            double(f"x{i}", 1e-5, 1.0, Scale.LOG),
            integer(f"x{i}", 1, 1000),
            category(f"x{i}", "a", "b", "c", "d"),
            double(f"x{i}", 0.0, 1.0),
        )[i % 4]


def _other(safety: Safety | None = None) -> Metric:
    return Metric(metric_id="size", goal=Goal.MINIMIZE, safety=safety)


_KINDS: Final[Mapping[str, Callable[[int], StudySpec]]] = {
    DOUBLES: lambda dimensions: _study(_doubles(dimensions)),
    "all kinds of parameters": lambda dimensions: _study(_all_kinds(dimensions)),
    "two objectives": lambda dimensions: _study(_doubles(dimensions), _other()),
    "a limit": lambda dimensions: _study(_doubles(dimensions), _other(Safety(threshold=2.0))),
}


def _trials(study: StudySpec, count: int) -> list[TrialRecord]:
    """Return trials at random points; their results are distances from two points."""
    space, draw = space_of(study), random.Random(0)  # noqa: S311  # to be repeated
    axes = {dimension.name: dimension.axis for dimension in space.dimensions}
    trials = []
    for number in range(1, count + 1):
        values = random_point(space, draw)
        positions = np.array([axes[name].position(value) for name, value in values])
        final = Measurement(
            metrics=(
                ("loss", float(np.sum((positions - 0.3) ** 2))),
                ("size", float(np.sum((positions - 0.6) ** 2))),
            )
        )
        state = TrialState.SUCCEEDED
        trials.append(TrialRecord(number=number, state=state, values=values, final=final))
    return trials


def crowd_s(trials: int = 1000, parallel: int = 50, dimensions: int = 3) -> float:
    """Return the seconds of all suggestions of a study with many trials at once."""
    began = time.perf_counter()
    search: Peer = Ours(_study(_doubles(dimensions)), 0)
    running: list[tuple[int, float]] = []
    for _ in range(trials):
        number, chosen = search.ask()
        running.append((number, sum((float(x) - 0.3) ** 2 for x in chosen.values())))
        if len(running) == parallel:
            ended, value = running.pop(0)
            search.tell(ended, (value,))
    return time.perf_counter() - began
