"""Measures the processor time and the memory of suggestions by the default algorithm.

A suggestion is measured for growing numbers of trials of 20 dimensions: its goals are 20 ms at 100
trials and 60 ms at 1,000, for one, two and three objectives, for a limit, and for spaces with
conditional parameters and of all kinds.  A later suggestion is the mean of ten, each after one more
trial, with the fits of the model among them; each is the least of several rounds, because other
programs make a processor's caches and so its time worse.  Optuna's Gaussian process is measured
beside it where Optuna and PyTorch are installed.  The memory is the peak of a process that makes
suggestions for 1,000 trials (``memory.py``); its goal is 20 MB above that of an earlier checkout.
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
from benchmarks.tuning import optuna_cost
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
_LATER_COUNT: Final = 10
ROUNDS: Final = 6

#: The kind of study that is measured at all sizes.
DOUBLES: Final = "one objective"
#: The kinds whose suggestions are compared with Optuna's, after so many trials.
_COMPARED: Final = (DOUBLES, "two objectives", "three objectives", "a limit")
_COMPARED_AT: Final = 100

#: The coordinates of the best point of each metric.
_CENTERS: Final = (0.3, 0.6, 0.8)

#: The most milliseconds of a later suggestion, by the number of trials.
LATER_MAX_MS: Final[Mapping[int, float]] = {100: 20.0, 1000: 60.0}
#: The most megabytes above an earlier checkout.
MORE_MEMORY_MAX_MB: Final = 20.0
#: The numbers of objectives and of limits of the studies whose memory is measured.
_MEASURED: Final = {
    "one objective": (1, 0),
    "three objectives": (3, 0),
    "two objectives and a limit": (2, 1),
}
_MEMORY: Final = Path(__file__).with_name("memory.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The processor time of a suggestion: the first after a server's start, and later ones."""

    kind: str
    trials: int
    first_ms: float
    next_ms: float


def growth(
    dimensions: int = 20,
    sizes: Sequence[int] = SIZES,
    kinds: Collection[str] = (DOUBLES,),
    rounds: int = 1,
) -> list[Growth]:
    """Measure suggestions after each number of trials in ``sizes``, of studies of some kinds."""
    studies = {kind: _KINDS[kind](dimensions) for kind in kinds}
    for study in studies.values():  # load modules before measuring
        suggest.suggest(study, _trials(study, sizes[0]), 1, 0)
    return [_at(kind, study, size, rounds) for kind, study in studies.items() for size in sizes]


def measure(against: Path | None) -> Report:
    """Measure the time and the memory; ``against`` is an earlier checkout, or None."""
    others = [kind for kind in _KINDS if kind != DOUBLES]
    costs = [
        *growth(rounds=ROUNDS),
        *growth(sizes=tuple(LATER_MAX_MS), kinds=others, rounds=ROUNDS),
    ]
    report = Report(goals=[*goals(costs), *memory(against)], lines=[*lines(costs)])
    if reason := optuna_cost.missing():
        report.left_out["Optuna's Gaussian process"] = reason
    else:
        report.lines += ["", *optuna_lines(costs)]
    return report


def goals(costs: Sequence[Growth]) -> Iterator[harness.Goal]:
    """Yield the later suggestions; the sizes with a limit are judged."""
    for cost in costs:
        name = f"a suggestion at {cost.trials:,} trials, {cost.kind}"
        yield at_most(name, cost.next_ms, LATER_MAX_MS.get(cost.trials), "ms")


def lines(costs: Sequence[Growth]) -> Iterator[str]:
    """Yield a line for each size."""
    for cost in costs:
        spent = f"{cost.first_ms:6.0f} ms after a start, {cost.next_ms:6.0f} ms later"
        yield f"{cost.trials:6,} trials, {cost.kind}: {spent}"


def optuna_lines(costs: Sequence[Growth]) -> Iterator[str]:
    """Measure Optuna's Gaussian process; yield a line for each kind, with the ratio to ours."""
    own_ms = {cost.kind: cost.next_ms for cost in costs if cost.trials == _COMPARED_AT}
    for kind in _COMPARED:
        study = _KINDS[kind](20)
        spent_ms = optuna_cost.suggestion_ms(study, _trials(study, _COMPARED_AT))
        ratio = f"{spent_ms / own_ms[kind]:.0f} times ours"
        yield f"{_COMPARED_AT:6,} trials, {kind}: {spent_ms:6.0f} ms by Optuna's GP, {ratio}"


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


def _at(kind: str, study: StudySpec, size: int, rounds: int) -> Growth:
    trials = _trials(study, size + _LATER_COUNT)
    spent_ms = np.array([_round_ms(study, trials, size) for _ in range(rounds)]).min(axis=0)
    first_ms, *later_ms = spent_ms.tolist()
    return Growth(kind=kind, trials=size, first_ms=first_ms, next_ms=float(np.mean(later_ms)))


def _round_ms(study: StudySpec, trials: Sequence[TrialRecord], size: int) -> list[float]:
    """Return the time of a suggestion after a start, and of one after each further trial."""
    gaussian.forget()
    counts = [size, *range(size + 1, len(trials) + 1)]
    return [_suggest_ms(study, trials[:count]) for count in counts]


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


def _conditional(dimensions: int) -> Iterator[ParameterSpec]:
    """Yield a choice of two models, each with parameters of its own; and parameters of both."""
    count = (dimensions - 1) // 3
    names = [f"x{i}" for i in range(dimensions - 1)]
    both, left, right = names[2 * count :], names[:count], names[count : 2 * count]
    children = {"left": left, "right": right}
    yield category(
        "model",
        *children,
        **{word: tuple(double(name, 0, 1) for name in some) for word, some in children.items()},
    )
    yield from (double(name, 0, 1) for name in both)


def _other(safety: Safety | None = None, name: str = "size") -> Metric:
    return Metric(metric_id=name, goal=Goal.MINIMIZE, safety=safety)


_KINDS: Final[Mapping[str, Callable[[int], StudySpec]]] = {
    DOUBLES: lambda dimensions: _study(_doubles(dimensions)),
    "conditional parameters": lambda dimensions: _study(_conditional(dimensions)),
    "all kinds of parameters": lambda dimensions: _study(_all_kinds(dimensions)),
    "two objectives": lambda dimensions: _study(_doubles(dimensions), _other()),
    "three objectives": lambda dimensions: _study(
        _doubles(dimensions), _other(), _other(name="depth")
    ),
    "a limit": lambda dimensions: _study(_doubles(dimensions), _other(Safety(threshold=2.0))),
}


def _trials(study: StudySpec, count: int) -> list[TrialRecord]:
    """Return trials at random points; their results are distances from points."""
    space, draw = space_of(study), random.Random(0)  # noqa: S311  # to be repeated
    axes = {dimension.name: dimension.axis for dimension in space.dimensions}
    trials = []
    for number in range(1, count + 1):
        values = random_point(space, draw)
        positions = np.array([axes[name].position(value) for name, value in values])
        metrics = tuple(
            (metric.metric_id, float(np.sum((positions - center) ** 2)))
            for metric, center in zip(study.metrics, _CENTERS, strict=False)
        )
        state = TrialState.SUCCEEDED
        trials.append(
            TrialRecord(
                number=number, state=state, values=values, final=Measurement(metrics=metrics)
            )
        )
    return trials


def crowd_s(trials: int = 1000, parallel: int = 50, dimensions: int = 3) -> float:
    """Return the processor time of all suggestions of a study with many trials at once, in s."""
    began = time.process_time()
    search: Peer = Ours(_study(_doubles(dimensions)), 0)
    running: list[tuple[int, float]] = []
    for _ in range(trials):
        number, chosen = search.ask()
        running.append((number, sum((float(x) - 0.3) ** 2 for x in chosen.values())))
        if len(running) == parallel:
            ended, value = running.pop(0)
            search.tell(ended, (value,))
    return time.process_time() - began
