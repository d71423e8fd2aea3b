"""Measures the time of a suggestion by the default algorithm, for growing numbers of trials."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.tuning.peers import OURS, Peer, peer
from benchmarks.tuning.spaces import double
from trainshed.model.study import Goal, Metric, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning import gaussian, suggest

SIZES: Sequence[int] = (50, 100, 200, 500, 1000)
_LATER_COUNT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The processor time of a suggestion: the first after a server's start, and later ones."""

    trials: int
    first_ms: float
    next_ms: float


def growth(dimensions: int = 20, sizes: Sequence[int] = SIZES) -> list[Growth]:
    """Measure a suggestion after each number of trials in ``sizes``, for a quadratic function."""
    warm = _trials(sizes[0], dimensions)
    suggest.suggest(_study(dimensions), warm, 1, 0)  # load modules before measuring
    return [_at(size, dimensions) for size in sizes]


def _at(size: int, dimensions: int) -> Growth:
    study, trials = _study(dimensions), _trials(size, dimensions)
    gaussian.forget()
    first = _suggest_ms(study, trials)
    later = [
        _suggest_ms(study, _trials(size + more, dimensions)) for more in range(1, _LATER_COUNT + 1)
    ]
    return Growth(trials=size, first_ms=first, next_ms=float(np.mean(later)))


def _suggest_ms(study: StudySpec, trials: Sequence[TrialRecord]) -> float:
    began = time.process_time()
    suggest.suggest(study, trials, 1, 0)
    return 1000 * (time.process_time() - began)


def _study(dimensions: int) -> StudySpec:
    return StudySpec(
        metrics=(Metric(metric_id="loss", goal=Goal.MINIMIZE),),
        parameters=tuple(double(f"x{i}", 0, 1) for i in range(dimensions)),
        trial_count_max=2000,
    )


def _trials(count: int, dimensions: int) -> list[TrialRecord]:
    rows = np.random.default_rng(0).random((count, dimensions))
    return [
        TrialRecord(
            number=number,
            state=TrialState.SUCCEEDED,
            values=tuple((f"x{i}", float(x)) for i, x in enumerate(row)),
            final=Measurement(metrics=(("loss", float(np.sum((row - 0.3) ** 2))),)),
        )
        for number, row in enumerate(rows, start=1)
    ]


def crowd_s(trials: int = 1000, parallel: int = 50, dimensions: int = 3) -> float:
    """Return the seconds of all suggestions of a study with many trials at once."""
    began = time.perf_counter()
    search: Peer = peer(OURS, _study(dimensions), 0)
    running: list[tuple[int, float]] = []
    for _ in range(trials):
        number, chosen = search.ask()
        running.append((number, sum((float(x) - 0.3) ** 2 for x in chosen.values())))
        if len(running) == parallel:
            search.tell(*running.pop(0))
    return time.perf_counter() - began
