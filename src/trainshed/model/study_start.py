"""What a study has before its first trial: known results, and the first points to try.

Results and points arrive as a caller has them, with parameters that may differ from those of the
study (``ResultRow``, ``PointRow``).  ``tuning.known_results`` turns them into points of the study
(``StudyStart``), which the server stores with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trainshed.model.study import Goal
from trainshed.model.trials import Values

#: The most known results and first points of a study.
RESULTS_MAX: Final = 1000
POINTS_MAX: Final = 100

#: The bounds of a request: results, of which a study uses at most ``RESULTS_MAX``, the characters
#: of a text, and the JSON values of everything together.
GIVEN_RESULTS_MAX: Final = 10_000
GIVEN_TEXT_MAX: Final = 1000
GIVEN_VALUES_MAX: Final = 100_000

#: The kinds of the events of a study that say which known results and first points it has.
KNOWN_RESULTS: Final = "KNOWN_RESULTS"
FIRST_POINTS: Final = "FIRST_POINTS"

#: A value as a file has it; ``bool`` is a word of a list.
RawValue = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedValue:
    """A value of an objective without a name; ``goal`` None: unknown."""

    value: float
    goal: Goal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One result as its source has it."""

    name: str
    """Where it is from, such as ``row 3 of results.csv``."""
    parameters: Mapping[str, RawValue] = field(default_factory=dict)
    metrics: Mapping[str, RawValue] = field(default_factory=dict)
    cells: Mapping[str, RawValue] = field(default_factory=dict)
    """Values that are parameters, metrics or neither: the study's names decide."""
    unnamed: tuple[UnnamedValue, ...] = ()
    """Values of the objectives in their order, of a source that names no metrics."""
    fault: str = ""
    """Why the source itself says that this is no result, such as ``the run is FAILED``."""
    source: str = ""
    """The file, experiment or study that has it; empty if the caller names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One point that a caller wants to be tried first."""

    name: str
    """As the caller wrote it, or where it is from."""
    parameters: Mapping[str, RawValue]
    source: str = ""
    """The place in a file that has it, such as ``line 3 of points.csv``; empty: no file has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredRow:
    """A result that the study does not use.  Rows with equal ``reason`` are counted together."""

    name: str
    reason: str
    value: str = ""
    """The value at fault; empty if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCount:
    """How many results of one source a study uses."""

    name: str
    """Empty for results whose source the caller does not name."""
    used: int = 0
    ignored: int = 0


def describe_source(name: str, used: int, ignored: int) -> str:
    """Describe a source in a few words, such as ``9 of results.csv (2 ignored)``."""
    rest = f" ({ignored} ignored)" if ignored else ""
    return f"{used} of {name or 'the request'}{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownResult:
    """A known result as a point of the study, with all of the study's metrics."""

    values: Values
    metrics: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStart:
    """The known results and the first points of a study; they never change."""

    results: tuple[KnownResult, ...] = ()
    points: tuple[Values, ...] = ()
    """The points to try before the search, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCall:
    """What a caller gives with a new study."""

    results: tuple[ResultRow, ...] = ()
    sources: tuple[str, ...] = ()
    """The names of the sources of ``results``, for sentences."""
    studies: tuple[str, ...] = ()
    """The ids of studies of the project whose results are used."""
    points: tuple[PointRow, ...] = ()


NO_START: Final = StartCall()
