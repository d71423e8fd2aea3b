"""Responses of the native API about a study: what it searches, its curves, its importances."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainshed.model.status import JobState
from trainshed.model.study import Algorithm, Goal, ParameterKind, Scale
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyMetric(Answer):
    """A metric of a study."""

    id: str
    goal: Goal
    threshold: float | None = None
    """The value that the metric must not be worse than; the study does not optimize it then."""
    safe_fraction_min: float | None = None
    """The share of safe trials that the study aims at (0..1); absent if it aims at none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyParameter(Answer):
    """A parameter of a study; two parameters under different parents may have one id."""

    id: str
    kind: ParameterKind
    scale: Scale
    bounds: Sequence[float] | None = None
    """The smallest and the largest value of a range."""
    values: Sequence[float | str] | None = None
    """The values of a list."""
    parent: str | None = None
    """The parameter on which this one depends."""
    parent_values: Sequence[float | str] | None = None
    """The values of the parent with which this parameter is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCounts(Answer):
    """The numbers of a study's trials."""

    made: int
    """All trials so far."""
    running: int
    waiting: int
    """Trials whose job waits or is being started."""
    paused: int
    """Trials that wait at a rung: the study resumes those that become the best of it."""
    succeeded: int
    infeasible: int
    stopped_early: int
    """Trials that a rule has stopped; they are also counted by their state."""
    safe: int | None = None
    """Succeeded trials that meet every limit; absent for a study without limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontGrowth(Answer):
    """The Pareto front after a trial that entered it."""

    trial: int
    size: int
    volume: float | None = None
    """With two objectives the share (0..1) of the rectangle between the worst and the best values
    of safe trials that the front dominates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRung(Answer):
    """A step at which all but the best trials are stopped, or paused.

    A trial has passed every rung up to the step of its latest measurement, and is judged at the
    last of them.
    """

    at: float
    """The step of the rung, or its second since a trial began."""
    trials: int
    """The number of trials that have come to the rung, stopped and paused ones included."""
    bar: float | None = None
    """The value that a trial at the rung needs to continue; absent while none is stopped there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSource(Answer):
    """A file, an experiment or a study whose results a study was given."""

    name: str
    """Empty for results whose source the caller did not name."""
    used: int
    ignored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDescription(Answer):
    """What a study searches, and how far it is."""

    name: str
    display_name: str
    state: JobState
    message: str
    """Why a trial waits and when the study will end, or why it ended; empty if nothing is known."""
    algorithm: Algorithm
    stopping: str | None = None
    """The rule of early stopping: ``median``, ``decay_curve``, ``convex`` or ``asha``."""
    rungs: Sequence[StudyRung] | None = None
    """The rungs of ``asha`` now, the first one first: they change when the first trial ends."""
    rungs_by_time: bool = False
    """Whether rungs are seconds, and not steps."""
    metrics: Sequence[StudyMetric]
    parameters: Sequence[StudyParameter]
    trial_count_max: int
    trial_count_parallel: int
    counts: TrialCounts
    known_results: int
    """The number of results from elsewhere that the search uses, without those of a study that
    this one continues."""
    known_sources: Sequence[KnownSource] = ()
    """Where known results are from, with the study that this one continues; empty for studies of
    an older version of the server."""
    first_points: int
    """The number of points that the caller wanted to be tried before the search."""
    priors: str = ""
    """Where the caller expects the best values, such as ``lr near 1e-3 (narrow)``; empty without
    labels that say it."""
    leaders: Sequence[int]
    """The number of the best trial; with several objectives the Pareto front, at most 1,000."""
    front_size: int | None = None
    """The number of trials in the Pareto front; absent for one objective."""
    front_history: Sequence[FrontGrowth] = ()
    """How the front grew; empty for one objective, and with more than 10,000 trials."""
    safety: str = ""
    """The limits, the share of safe trials and the desired share; empty without limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredResult(Answer):
    """A known result that a study does not use."""

    name: str
    """Where it is from."""
    value: str | None = None
    """The value at fault; absent if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredResults(Answer):
    """The known results that a study ignores for one reason."""

    reason: str
    count: int
    examples: Sequence[IgnoredResult]
    """The first of them, at most three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStartReport(Answer):
    """What a new study has before its first trial, and which of the given results it ignores."""

    results: int
    """The number of known results that the search uses."""
    ignored: int
    reasons: Sequence[IgnoredResults]
    """Why results are ignored, the most frequent reason first; at most 50."""
    left_out: Sequence[str]
    """Parameters, metrics and columns of the used results that the study has not."""
    first_points: int
    """The number of points that are tried before the search."""
    first_points_known: int = 0
    """The number of first points that are not tried, because a known result has their values."""
    sources: Sequence[KnownSource] = ()
    """How many results of each source are used."""
    message: str
    """One sentence about the results; empty if none were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurve(Answer):
    """The measurements of one trial, thinned out: ``values`` at the steps or seconds ``at``."""

    trial: int
    at: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurves(Answer):
    """The curves of the newest trials, by number."""

    metric: str
    by_time: bool
    """Whether ``at`` is in seconds since a trial began, and not a step."""
    trials: int
    """The number of trials that were read; trials without a measurement have no curve."""
    curves: Sequence[MetricCurve]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterImportance(Answer):
    """How much a parameter decides the metric: its share of 1."""

    parameter: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Importances(Answer):
    """The importances of parameters (PED-ANOVA), the largest first."""

    metric: str
    trials: int
    """The number of succeeded trials behind them, among the newest 10,000."""
    message: str
    """How reliable they are; if there are none, what they need."""
    importances: Sequence[ParameterImportance]
