"""Names the searches that the tuning benchmark compares, and has those of this process.

Each search suggests a point when a trial begins, and gets the values in the order in which trials
end.  Trainshed's searches run in this process, all others behind a pipe (``pipes``).
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from benchmarks.tuning.spaces import Problem
from trainshed import __version__
from trainshed.model.study import Algorithm, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Value
from trainshed.tuning.suggest import suggest

Chosen = Mapping[str, Value]

OURS: Final = "ours"
RANDOM: Final = "random"
#: The peers, the first of which is recorded first.
PEERS: Final = (
    *("ax", "vizier", "optuna-gp", "smac", "optuna-tpe"),
    *(RANDOM, "optuna-tpe-multi", "optuna-cmaes"),
)
_ALGORITHMS: Final = {OURS: Algorithm.DEFAULT, RANDOM: Algorithm.RANDOM_SEARCH}


class Peer(Protocol):
    """A search that suggests points; the trials are numbered."""

    def ask(self) -> tuple[int, Chosen]:
        """Begin the next trial; return its number and its point."""

    def tell(self, number: int, values: Sequence[float]) -> None:
        """Take the values of a trial's metrics; the trial has failed if one is not finite."""


class Ours:
    """The suggestions of the service."""

    version = __version__

    def __init__(self, study: StudySpec, seed: int, name: str = OURS) -> None:
        """Begin a search without trials; ``name`` is ``OURS`` or ``RANDOM``.

        The study has the number of trials and how many run at once, as a user's has.
        """
        self._study, self._seed = replace(study, algorithm=_ALGORITHMS[name]), seed
        self._trials: dict[int, TrialRecord] = {}
        self.cpu_s = 0.0

    def ask(self) -> tuple[int, Chosen]:
        """Suggest a point as the loop of a study does."""
        before_s = time.process_time()
        suggestion = suggest(self._study, tuple(self._trials.values()), 1, self._seed)
        self.cpu_s += time.process_time() - before_s
        number = len(self._trials) + 1
        self._trials[number] = TrialRecord(number=number, values=suggestion.values[0])
        return number, dict(suggestion.values[0])

    def tell(self, number: int, values: Sequence[float]) -> None:
        """Store the final values of a trial; it is infeasible if one of them is not finite."""
        names = [metric.metric_id for metric in self._study.metrics]
        final = Measurement(metrics=tuple(zip(names, values, strict=True)))
        state, reason = TrialState.SUCCEEDED, None
        if not all(map(math.isfinite, values)):
            state, reason = TrialState.INFEASIBLE, "the value was not finite"
        self._trials[number] = replace(
            self._trials[number],
            state=state,
            final=None if reason else final,
            measurements=() if reason else (final,),
            infeasible_reason=reason,
        )


def is_own(name: str) -> bool:
    """Return whether a search is Trainshed's."""
    return name in _ALGORITHMS


def is_able(name: str, problem: Problem) -> bool:
    """Return whether a peer has what a problem needs."""
    if name == "smac":
        return not problem.has_limits
    return name != "optuna-cmaes" or len(problem.study.metrics) == 1
