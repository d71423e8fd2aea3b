"""Caches the curves from which the rungs of a study are computed.

The page of a study reads its rungs whenever a trial reports.  Turning the reports of all trials
into measurements takes seconds for a large study, and most trials have no new report.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.model.study import AshaRule, StudySpec
from trainshed.store.records.studies import StoredTrial
from trainshed.tuning.asha import Rung, rungs_of
from trainshed.tuning.curves import TrialCurve, curve_of
from trainshed.tuning.measuring import measured
from trainshed.tuning.ranking import objectives

#: The most points of all cached curves: about 13 MB.
POINTS_MAX: Final = 200_000


@dataclass(slots=True)
class RungCurves:
    """The curves by study and trial, with the number of reports that each has.  Thread-safe."""

    points_max: int = POINTS_MAX
    _curves: dict[tuple[int, int], tuple[int, TrialCurve | None]] = field(default_factory=dict)
    _points: int = 0

    def rungs(
        self, uid: int, study: StudySpec, stored_trials: Sequence[StoredTrial]
    ) -> tuple[Rung, ...]:
        """Return the rungs of a study; none if it has none."""
        trials = [stored.trial for stored in stored_trials]
        return rungs_of(study, trials, list(self._list_curves(uid, study, stored_trials)))

    def _list_curves(
        self, uid: int, study: StudySpec, stored_trials: Sequence[StoredTrial]
    ) -> Iterator[TrialCurve]:
        for stored in stored_trials:
            count, curve = self._curves.get((uid, stored.trial.number), (-1, None))
            if count != len(stored.reports):  # an equal count means the same reports
                curve = _draw(study, stored)
                self._store(uid, stored, curve)
            if curve:
                yield curve

    def _store(self, uid: int, stored: StoredTrial, curve: TrialCurve | None) -> None:
        if self._points > self.points_max:
            self._curves.clear()
            self._points = 0
        _, previous = self._curves.get((uid, stored.trial.number), (0, None))
        self._curves[uid, stored.trial.number] = len(stored.reports), curve
        self._points += _count_points(curve) - _count_points(previous)


def _count_points(curve: TrialCurve | None) -> int:
    return len(curve.at) if curve else 0


def _draw(study: StudySpec, stored: StoredTrial) -> TrialCurve | None:
    goals = objectives(study)
    if len(goals) != 1 or not isinstance(study.stopping, AshaRule):
        return None
    trial = replace(stored.trial, measurements=measured(study, stored.trial, stored.reports))
    return curve_of(goals[0], trial, by_time=study.stopping.by_time)
