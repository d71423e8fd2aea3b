"""The spec of a tuning study: parameters, metrics, algorithm and stopping rules."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal


class Goal(enum.Enum):
    """Whether a higher or a lower value of a metric is better."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


class ParameterKind(enum.Enum):
    """The kinds of values of a parameter."""

    DOUBLE = "DOUBLE"
    INTEGER = "INTEGER"
    CATEGORICAL = "CATEGORICAL"
    DISCRETE = "DISCRETE"


class Scale(enum.Enum):
    """The scale of a numeric range in the search."""

    NONE = "NONE"
    LINEAR = "LINEAR"
    LOG = "LOG"
    REVERSE_LOG = "REVERSE_LOG"


class Algorithm(enum.Enum):
    """The algorithm that chooses the next trial; DEFAULT is Bayesian optimization."""

    DEFAULT = "DEFAULT"
    GRID_SEARCH = "GRID_SEARCH"
    RANDOM_SEARCH = "RANDOM_SEARCH"


class Selection(enum.Enum):
    """The measurement that becomes a trial's final one (docs/sources/vertex.md 8)."""

    LAST = "LAST"
    BEST = "BEST"


class Noise(enum.Enum):
    """The difference between trials with the same parameters; DEFAULT: the model estimates it."""

    DEFAULT = "DEFAULT"
    LOW = "LOW"
    HIGH = "HIGH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """A metric that must not become worse than ``threshold``, by its own goal.

    ``fraction_min``: the share of safe trials to aim at (0..1); 0 aims at none.
    """

    threshold: float
    fraction_min: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One measured quantity and its goal.  With ``safety`` it is a limit, not an objective."""

    metric_id: str
    goal: Goal = Goal.MAXIMIZE
    safety: Safety | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianRule:
    """Stop a trial whose best value is worse than the median of the others' running averages."""

    rule: Literal["median"] = "median"
    """The word that identifies the rule in stored JSON."""
    by_time: bool = False
    """Compare at the same elapsed time, and not at the same step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayCurveRule:
    """Stop a trial that is very unlikely to beat the best one, by a Gaussian process."""

    rule: Literal["decay_curve"] = "decay_curve"
    by_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvexRule:
    """Stop a trial whose optimistic extrapolation to ``step_count_max`` is worse than the best.

    None means the values of docs/sources/vertex.md 8 (a tenth of the most steps; 5 measurements).
    """

    rule: Literal["convex"] = "convex"
    step_count_max: int | None = None
    step_count_min: int | None = None
    measurement_count_min: int | None = None
    learning_rate_parameter: str | None = None
    by_time: bool = False
    update_all_stopped_trials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AshaRule:
    """Stop a trial at a rung, a step, unless it is among the best of those that came so far.

    Asynchronous successive halving; ``tuning.asha`` derives the rungs that are not given.
    """

    rule: Literal["asha"] = "asha"
    reduction: int = 3
    """One of so many trials at a rung continues; the steps of rungs differ by this factor."""
    first_rung: int | None = None
    """The step, or second, of the first rung; None: derived from the reported steps."""
    by_time: bool = False
    pauses: bool = False
    """Whether trials with a checkpoint are paused at a rung, and not stopped.  Studies that were
    stored before the field existed have False.  With ``by_time`` no trial is paused: the seconds of
    a resumed program begin at 0."""


#: The newest rule by which DEFAULT suggests trials (``StudySpec.search_rule``).
SEARCH_RULE: Final = 2

StoppingRule = MedianRule | DecayCurveRule | ConvexRule | AshaRule


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """A time since the study began, a date (RFC 3339), or both.  No limit if None."""

    seconds: float | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRules:
    """The rules that end a study (studyStoppingConfig, docs/sources/vertex.md 8).

    The minimum rules block all others.  No rule if None.
    """

    stop_asap: bool = False
    """Trials that run then are stopped too, and not awaited."""
    runtime_min: TimeLimit | None = None
    runtime_max: TimeLimit | None = None
    trial_count_min: int | None = None
    trial_count_max: int | None = None
    trials_without_progress_max: int | None = None
    seconds_without_progress_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A child parameter that exists only while its parent has one of these values."""

    parent_values: tuple[str | float, ...]
    parameter: "ParameterSpec"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One dimension of the search space; ``bounds`` for ranges, ``values`` for lists."""

    parameter_id: str
    kind: ParameterKind
    bounds: tuple[float, float] | None = None
    values: tuple[str | float, ...] = ()
    scale: Scale = Scale.NONE
    default: str | float | None = None
    """The value of the first trial; None lets the service choose."""
    conditions: tuple[Condition, ...] = ()


class PriorWidth(enum.Enum):
    """How far from the expected value the best value of a parameter may be."""

    NARROW = "narrow"
    USUAL = "usual"
    WIDE = "wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterPrior:
    """Where the best value of a parameter is expected (``model.study_priors``)."""

    parameter_id: str
    value: str
    """A number or a word, as the caller's label has it."""
    width: PriorWidth = PriorWidth.USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """The whole study; counts of 0 mean that the service decides."""

    metrics: tuple[Metric, ...]
    parameters: tuple[ParameterSpec, ...]
    algorithm: Algorithm = Algorithm.DEFAULT
    trial_count_max: int = 1
    trial_count_parallel: int = 1
    trial_count_failed_max: int = 0
    selection: Selection = Selection.LAST
    noise: Noise = Noise.DEFAULT
    stopping: StoppingRule | None = None
    """The rule by which trials are stopped early; None: no trial is."""
    ending: EndingRules = field(default_factory=EndingRules)
    priors: tuple[ParameterPrior, ...] = ()
    """Where the best values are expected; only DEFAULT uses it, from rule 2 on."""
    resume_previous_job_id: str | None = None
    resume_previous_uid: int | None = None
    """The uid of that job; None until the service has found the job."""
    search_rule: int = 1
    """The rule by which trials are suggested: a study keeps the rule that it began with.  Studies
    that were stored before the field existed have 1; the service gives new ones ``SEARCH_RULE``."""
    is_whole: bool = True
    """False if a part of the caller's study could not be read, and is left out."""


def parameters_of(study: StudySpec) -> Iterator[ParameterSpec]:
    """Yield every parameter of a study, conditional ones at any depth after their parent."""
    return (parameter for parameter, _ in occurrences(study.parameters))


def occurrences(
    parameters: Sequence[ParameterSpec],
    under: Mapping[object, frozenset[str | float]] | None = None,
    at: tuple[int, ...] = (),
) -> Iterator[tuple[ParameterSpec, Mapping[object, frozenset[str | float]]]]:
    """Yield every parameter, with the values that each parent above it must have.

    ``at``, its position, identifies a parent: two parameters may have one name
    (docs/sources/vertex.md 8).
    """
    conditions = under or {}
    for index, parameter in enumerate(parameters):
        position = (*at, index)
        yield parameter, conditions
        for number, condition in enumerate(parameter.conditions):
            inner = {**conditions, position: frozenset(condition.parent_values)}
            yield from occurrences([condition.parameter], inner, (*position, number))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One trial for its program: its number as a text, from "1", and its arguments."""

    trial_id: str
    parameters: tuple[tuple[str, str], ...] = ()
    """(name, value as the command line has it); a parameter that is inactive is absent."""
    study_job_id: str = ""
    """The id of the tuning job, which its programs read in CLOUD_ML_JOB_ID."""
