"""Optuna's TPE over a study that is rebuilt in memory from the trials.

A persistent Optuna study could differ from ours; a rebuilt one cannot.  This module has the
conditions of parameters, so parameters that exist together are drawn together; Optuna would have to
infer the conditions from the trials.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from trainshed.model.trials import Value, Values
from trainshed.tuning.history import History, TriedPoint
from trainshed.tuning.optuna_studies import UncopiedTrial
from trainshed.tuning.random_search import random_of
from trainshed.tuning.space import Dimension, Space

optuna.logging.set_verbosity(optuna.logging.WARNING)

#: A longer list of steps is sampled like a range.
STEPS_MAX: Final = 1 << 20

_STUDY: Final = "study"

#: Optuna requires a time for every trial, and does not use it.
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class ParzenTrees:
    """A space in Optuna's form, with the finished trials of one batch."""

    def __init__(self, space: Space, seed: int) -> None:
        """Trials are added at the first call of ``point``."""
        self._space = space
        self._seed = seed
        self._distributions = {
            str(dimension.index): _distribution(dimension)
            for dimension in space.dimensions
            if dimension.axis.count != 1
        }
        self._storage = optuna.storages.InMemoryStorage()
        self._study_id = -1
        self._pending = 0

    def point(self, history: History) -> Values:
        """Return the most promising point.

        The calls of one batch must have the same ``finished`` points; ``pending`` may only grow.
        """
        if self._study_id < 0:
            self._rebuild(history)
        for tried in history.pending[self._pending :]:
            self._add_trial(tried, TrialState.RUNNING)
        self._pending = len(history.pending)
        seed = random_of(self._seed, history.number, "tpe").getrandbits(32)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=1
        )
        study = optuna.load_study(study_name=_STUDY, storage=self._storage, sampler=sampler)
        return self._space.point(self._sampled(study, sampler))

    def _sampled(
        self, study: optuna.Study, sampler: optuna.samplers.BaseSampler
    ) -> dict[int, Value]:
        """Sample parameters under the same condition together, parents before children."""
        open_trial = self._storage.get_trial(self._open_trial)
        chosen: dict[int, Value] = {}
        for group in _groups(self._space):
            if not group[0].is_active(chosen):
                continue
            names = [str(dimension.index) for dimension in group if dimension.axis.count != 1]
            distributions = {name: self._distributions[name] for name in names}
            sample = sampler.sample_relative(study, open_trial, distributions)
            for dimension in group:
                chosen[dimension.index] = _from_optuna(
                    dimension, sample.get(str(dimension.index), 0)
                )
        return chosen

    def _rebuild(self, history: History) -> None:
        losses = next(tried.losses for tried in history.succeeded if tried.losses)
        directions = [optuna.study.StudyDirection.MINIMIZE] * len(losses)
        self._study_id = self._storage.create_new_study(directions, _STUDY)
        self._open_trial = self._storage.create_new_trial(self._study_id)
        scales = _scales(history.finished)
        for tried in history.finished:
            # Optuna ranks a trial without a value below every other one
            self._add_trial(
                tried, TrialState.COMPLETE if tried.losses else TrialState.PRUNED, scales
            )

    def _add_trial(
        self, tried: TriedPoint, state: TrialState, scales: Sequence[float] = ()
    ) -> None:
        params = {
            str(index): _to_optuna(self._space.dimensions[index], value)
            for index, value in tried.chosen.items()
            if str(index) in self._distributions
        }
        record = UncopiedTrial(
            number=-1,
            trial_id=-1,
            state=state,
            value=None,
            values=tried.losses,
            datetime_start=_EPOCH,
            datetime_complete=_EPOCH if state.is_finished() else None,
            params=params,
            distributions={name: self._distributions[name] for name in params},
            user_attrs={},
            system_attrs={},
            intermediate_values={},
        )
        if tried.losses:
            for name, (excess, scale) in enumerate(
                zip(_fill_unknown(tried.excesses), scales, strict=True)
            ):
                record.set_constraint(str(name), excess / scale)
        self._storage.create_new_trial(self._study_id, record)


def _scales(finished: Sequence[TriedPoint]) -> tuple[float, ...]:
    """Return the largest excess of each limit, which makes their units comparable."""
    columns = zip(*(_fill_unknown(tried.excesses) for tried in finished), strict=True)
    return tuple(max(map(abs, column)) or 1.0 for column in columns)


def _fill_unknown(excesses: Sequence[float]) -> tuple[float, ...]:
    """Return the excesses; a limit of an unknown value counts as slightly broken."""
    return tuple(1.0 if math.isnan(excess) else excess for excess in excesses)


def _groups(space: Space) -> Sequence[Sequence[Dimension]]:
    """Return groups of dimensions that are active together, each after its parent's group."""
    groups: dict[tuple[int | None, frozenset[Value]], list[Dimension]] = {}
    for dimension in space.dimensions:
        groups.setdefault((dimension.parent, dimension.parent_values), []).append(dimension)
    return tuple(groups.values())


def _distribution(dimension: Dimension) -> BaseDistribution:
    axis = dimension.axis
    if isinstance(axis.value(0.5), str):
        return CategoricalDistribution(range(axis.count or 0))
    if _has_steps(dimension):
        return IntDistribution(0, (axis.count or 1) - 1)
    return FloatDistribution(0.0, 1.0)


def _has_steps(dimension: Dimension) -> bool:
    axis = dimension.axis
    return axis.is_even and axis.count is not None and axis.count <= STEPS_MAX


def _to_optuna(dimension: Dimension, value: Value) -> float:
    position = dimension.axis.position(value)
    return int(position * (dimension.axis.count or 1)) if _has_steps(dimension) else position


def _from_optuna(dimension: Dimension, inner: float) -> Value:
    if _has_steps(dimension):
        return dimension.axis.value((inner + 0.5) / (dimension.axis.count or 1))
    return dimension.axis.value(inner)
