"""Turns results from elsewhere into points of a study, and says which ones cannot be used.

A result is used if it has every metric of the study and its values are a point of the study's
space.  A missing parameter takes the study's default.  A parameter that the study lacks is left out
if it had one value in all results; if it differs, it explains a part of the results that the study
cannot see, and these results are ignored.  The tempting alternative, to use them with noise, would
let the search trust differences that have another cause.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

from trainshed.model.study import StudySpec
from trainshed.model.study_start import (
    RESULTS_MAX,
    IgnoredRow,
    KnownResult,
    RawValue,
    ResultRow,
    SourceCount,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Value, Values, text_of
from trainshed.tuning.ranking import objectives
from trainshed.tuning.scales import Axis, Doubles, Integers
from trainshed.tuning.space import Dimension, Space, space_of

#: The most values of a list, and characters of a value, that a sentence names.
_LISTED_MAX: Final = 8
_VALUE_CHARS_MAX: Final = 60
_TOO_MANY: Final = f"only the last {RESULTS_MAX:,} results are used"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedResults:
    """The results of all sources: those that the study uses, and the rest with the reasons."""

    taken: tuple[KnownResult, ...] = ()
    ignored: tuple[IgnoredRow, ...] = ()
    """In the order of the sources."""
    left_out: tuple[str, ...] = ()
    """Names that the results have and the study has not, in the results that are used."""
    sources: tuple[SourceCount, ...] = ()
    """Each source, in the order of their first results."""


def match_results(study: StudySpec, rows: Sequence[ResultRow]) -> MatchedResults:
    """Return the known results of a study that admission has accepted."""
    matcher = _Matcher(study=study, space=space_of(study))
    sorted_rows = [matcher.sort_cells(row) for row in rows]
    outcomes: Sequence[_Outcome] = [matcher.match(row) for row in sorted_rows]
    outcomes = _ignore_unexplained(matcher, sorted_rows, outcomes)
    outcomes = _keep_last(sorted_rows, outcomes)
    return MatchedResults(
        taken=tuple(outcome for outcome in outcomes if isinstance(outcome, KnownResult)),
        ignored=tuple(outcome for outcome in outcomes if isinstance(outcome, IgnoredRow)),
        left_out=_left_out(matcher, rows, outcomes),
        sources=_count_sources(rows, outcomes),
    )


def trial_of(result: KnownResult) -> TrialRecord:
    """Return a known result as the trial of an earlier study.

    Its number is 0, so that the trials of the study still begin at 1.
    """
    final = Measurement(metrics=result.metrics)
    return TrialRecord(number=0, state=TrialState.SUCCEEDED, values=result.values, final=final)


class ValueFault(ValueError):
    """A value that cannot be used: ``reason`` has no value, so that equal faults can be counted."""

    def __init__(self, reason: str, value: str = "", parameter: str = "") -> None:
        """``value`` is the value at fault as a text; ``parameter`` may be empty."""
        super().__init__(reason)
        self.reason = reason
        self.value = value
        self.parameter = parameter


def find_point(space: Space, values: Mapping[str, RawValue]) -> Values:
    """Return the point with these values; a missing one is the parameter's default.

    Values of parameters that are inactive at this point, or that the space lacks, are left out.
    Raises ValueFault for the first value that cannot be used.
    """
    chosen, faults = choose_values(space, values)
    if faults:
        raise faults[0]
    return space.point(chosen)


def choose_values(
    space: Space, values: Mapping[str, RawValue]
) -> tuple[dict[int, Value], list[ValueFault]]:
    """Return the values of active dimensions by index, and a fault for each other one."""
    chosen: dict[int, Value] = {}
    faults: list[ValueFault] = []
    for dimension in space.dimensions:
        if dimension.is_active(chosen):
            try:
                chosen[dimension.index] = _choose_value(dimension, values)
            except ValueFault as fault:
                faults.append(fault)
    return chosen, faults


def _choose_value(dimension: Dimension, values: Mapping[str, RawValue]) -> Value:
    raw = values.get(dimension.name)
    if raw is None or raw == "":
        if dimension.default is None:
            reason = f"{dimension.name} is missing and has no defaultValue"
            raise ValueFault(reason, parameter=dimension.name)
        return dimension.default
    equal = _equal_values(dimension.axis, raw)
    if not equal:
        reason = f"{dimension.name} {describe_axis(dimension.axis)}"
        raise ValueFault(reason, shorten(raw), dimension.name)
    return equal[0]


def _equal_values(axis: Axis, raw: RawValue) -> tuple[Value, ...]:
    """Return the value of an axis that a raw value means; nothing if there is none."""
    is_word = not isinstance(axis, Doubles | Integers) and isinstance(axis.values[0], str)
    if is_word:
        return next(filter(None, map(axis.equal_values, _words_of(raw))), ())
    number = _number_of(raw)
    return () if number is None else axis.equal_values(number)


def _words_of(raw: RawValue) -> Sequence[str]:
    """Return the words that a raw value may mean; Python and JSON write booleans differently."""
    if isinstance(raw, bool):
        return (str(raw), str(raw).lower())
    return (raw,) if isinstance(raw, str) else (text_of(raw), str(raw))


def _number_of(raw: RawValue) -> float | None:
    if isinstance(raw, bool):
        return None
    try:
        number = float(raw)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def describe_axis(axis: Axis) -> str:
    """Return what a value outside of an axis breaks, such as ``is not between 0.1 and 1``."""
    if isinstance(axis, Doubles):
        return f"is not between {text_of(axis.low)} and {text_of(axis.high)}"
    if isinstance(axis, Integers):
        return f"is not a whole number from {axis.low} to {axis.low + axis.count - 1}"
    listed = ", ".join(text_of(value) for value in axis.values[:_LISTED_MAX])
    return f"is not one of {listed}{', ...' if axis.count > _LISTED_MAX else ''}"


def shorten(raw: RawValue) -> str:
    """Return a value as a text for a sentence."""
    text = str(raw) if isinstance(raw, bool) else text_of(raw)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}..."


@dataclass(frozen=True)
class _Matcher:
    study: StudySpec
    space: Space

    @cached_property
    def parameters(self) -> frozenset[str]:
        return frozenset(dimension.name for dimension in self.space.dimensions)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        return tuple(metric.metric_id for metric in self.study.metrics)

    def sort_cells(self, row: ResultRow) -> ResultRow:
        """Return the row with its cells among its parameters and metrics; others are left out."""
        parameters, metrics = dict(row.parameters), dict(row.metrics)
        for name, raw in row.cells.items():
            if name in self.parameters:
                parameters.setdefault(name, raw)
            elif name in self.metrics and raw != "":
                metrics.setdefault(name, raw)
        return replace(row, parameters=parameters, metrics=metrics)

    def match(self, row: ResultRow) -> KnownResult | IgnoredRow:
        if row.fault:
            return IgnoredRow(name=row.name, reason=row.fault)
        try:
            metrics = self._find_metrics(row)
            values = find_point(self.space, row.parameters)
        except ValueFault as fault:
            return IgnoredRow(name=row.name, reason=fault.reason, value=fault.value)
        return KnownResult(values=values, metrics=metrics)

    def _find_metrics(self, row: ResultRow) -> tuple[tuple[str, float], ...]:
        """Return the values of all metrics of the study.  Raises ValueFault if one is missing."""
        named = {**self._name_values(row), **row.metrics}
        return tuple((name, _measured(name, named)) for name in self.metrics)

    def _name_values(self, row: ResultRow) -> Mapping[str, RawValue]:
        """Return the unnamed values by the objectives of the study, in their order."""
        goals = objectives(self.study)
        if not row.unnamed or all(goal.metric_id in row.metrics for goal in goals):
            return {}
        if len(row.unnamed) != len(goals):
            values = "1 value" if len(row.unnamed) == 1 else f"{len(row.unnamed)} values"
            names = ", ".join(goal.metric_id for goal in goals)
            raise ValueFault(
                f"it has {values} without names, and the study's objectives are {names}"
            )
        for unnamed, goal in zip(row.unnamed, goals, strict=True):
            if unnamed.goal not in {None, goal.goal}:
                verb = f"{goal.goal.value.lower()}s"
                raise ValueFault(
                    f"its value has no name and the other goal: this study {verb} {goal.metric_id}"
                )
        pairs = zip(goals, row.unnamed, strict=True)
        return {goal.metric_id: unnamed.value for goal, unnamed in pairs}


def _measured(name: str, named: Mapping[str, RawValue]) -> float:
    """Return the value of a metric.  Raises ValueFault."""
    if name not in named:
        raise ValueFault(f"metric {name} is missing")
    number = _number_of(named[name])
    if number is None:
        raise ValueFault(f"metric {name} is not a finite number", shorten(named[name]))
    return number


_Outcome = KnownResult | IgnoredRow


def _ignore_unexplained(
    matcher: _Matcher, rows: Sequence[ResultRow], outcomes: Sequence[_Outcome]
) -> Sequence[_Outcome]:
    """Ignore results with a parameter that the study lacks and that differs between results."""
    texts: dict[str, set[str]] = {}
    for name, raw in _extra_parameters(matcher, rows, outcomes):
        texts.setdefault(name, set()).add(shorten(raw))
    differing = sorted(name for name, values in texts.items() if len(values) > 1)
    return [
        _ignore_if(row, outcome, differing) for row, outcome in zip(rows, outcomes, strict=True)
    ]


def _ignore_if(row: ResultRow, outcome: _Outcome, differing: Collection[str]) -> _Outcome:
    if isinstance(outcome, IgnoredRow):
        return outcome
    for name in differing:
        if name in row.parameters:
            reason = f"{name} is not a parameter of this study and differs between the results"
            return IgnoredRow(name=row.name, reason=reason, value=shorten(row.parameters[name]))
    return outcome


def _extra_parameters(
    matcher: _Matcher, rows: Iterable[ResultRow], outcomes: Iterable[_Outcome]
) -> Iterator[tuple[str, RawValue]]:
    for row, outcome in zip(rows, outcomes, strict=True):
        if isinstance(outcome, KnownResult):
            for name, raw in row.parameters.items():
                if name not in matcher.parameters and raw != "":
                    yield name, raw


def _keep_last(rows: Sequence[ResultRow], outcomes: Sequence[_Outcome]) -> Sequence[_Outcome]:
    """Ignore all but the last ``RESULTS_MAX`` results."""
    excess = sum(isinstance(outcome, KnownResult) for outcome in outcomes) - RESULTS_MAX
    limited: list[_Outcome] = []
    for row, outcome in zip(rows, outcomes, strict=True):
        if isinstance(outcome, KnownResult) and excess > 0:
            excess -= 1
            limited.append(IgnoredRow(name=row.name, reason=_TOO_MANY))
        else:
            limited.append(outcome)
    return limited


def _count_sources(
    rows: Sequence[ResultRow], outcomes: Sequence[_Outcome]
) -> tuple[SourceCount, ...]:
    used, ignored = Counter[str](), Counter[str]()
    for row, outcome in zip(rows, outcomes, strict=True):
        counter = used if isinstance(outcome, KnownResult) else ignored
        counter[row.source] += 1
    names = dict.fromkeys(row.source for row in rows)
    return tuple(SourceCount(name=n, used=used[n], ignored=ignored[n]) for n in names)


def _left_out(
    matcher: _Matcher, rows: Sequence[ResultRow], outcomes: Sequence[_Outcome]
) -> tuple[str, ...]:
    """Return the names of parameters, metrics and cells that are not used, sorted."""
    names = {
        name
        for row, outcome in zip(rows, outcomes, strict=True)
        if isinstance(outcome, KnownResult)
        for name in chain(row.parameters, row.metrics, row.cells)
    }
    return tuple(sorted(names - matcher.parameters - {*matcher.metrics}))
