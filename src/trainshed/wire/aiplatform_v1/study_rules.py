"""How a StudySpec says that trials are stopped early, and when a study ends (vertex-sdk.md 8)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from trainshed.model.study import (
    ConvexRule,
    DecayCurveRule,
    EndingRules,
    MedianRule,
    StoppingRule,
    TimeLimit,
)
from trainshed.wire.times import seconds

Json = Mapping[str, Any]


def stopping_of(study: Json) -> StoppingRule | None:
    """The rule by which trials are stopped early; an empty message of a rule is that rule."""
    found = (read(study[name]) for name, read in STOPPING.items() if name in study)
    return next(found, None)


def ending_of(value: Json) -> EndingRules:
    """The rules of a StudyStoppingConfig; a study without one has none."""
    return EndingRules(
        stop_asap=value.get("shouldStopAsap", False),
        runtime_min=_limit(value.get("minimumRuntimeConstraint")),
        runtime_max=_limit(value.get("maximumRuntimeConstraint")),
        trial_count_min=value.get("minNumTrials"),
        trial_count_max=value.get("maxNumTrials"),
        trials_without_progress_max=value.get("maxNumTrialsNoProgress"),
        seconds_without_progress_max=seconds(value.get("maxDurationNoProgress")),
    )


def _limit(value: Json | None) -> TimeLimit | None:
    """A StudyTimeConstraint; its date in capitals, because RFC 3339 allows ``t`` and ``z``."""
    if value is None:
        return None
    until = value.get("endTime")
    return TimeLimit(
        seconds=seconds(value.get("maxDuration")), until=until.upper() if until else None
    )


def _decay_curve(value: Json) -> DecayCurveRule:
    return DecayCurveRule(by_time=value.get("useElapsedDuration", False))


def _median(value: Json) -> MedianRule:
    return MedianRule(by_time=value.get("useElapsedDuration", False))


def _convex(value: Json) -> ConvexRule:
    """The convex rule.  No most steps, and no name, are how protobuf says that none is given."""
    return ConvexRule(
        step_count_max=_whole(value.get("maxStepCount")) or None,
        step_count_min=_whole(value.get("minStepCount")),
        measurement_count_min=_whole(value.get("minMeasurementCount")),
        learning_rate_parameter=value.get("learningRateParameterName") or None,
        by_time=value.get("useElapsedDuration", False),
        update_all_stopped_trials=value.get("updateAllStoppedTrials", False),
    )


def _whole(value: str | None) -> int | None:
    return None if value is None else int(value)


#: The alternatives of early stopping, and how each is read.
STOPPING: Final[Mapping[str, Callable[[Json], StoppingRule]]] = {
    "decayCurveStoppingSpec": _decay_curve,
    "medianAutomatedStoppingSpec": _median,
    "convexAutomatedStoppingSpec": _convex,
}
