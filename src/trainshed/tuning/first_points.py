"""Checks the points that a caller wants to be tried first, and finds the next one.

They come before the points of every algorithm.  A point is found by its values, so that a restarted
server goes on with the first one that has no trial; no state says how far it is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.model.spelling import did_you_mean, nearest_name
from trainshed.model.study import StudySpec
from trainshed.model.study_start import PointRow
from trainshed.model.trials import TrialOrigin, Values
from trainshed.tuning.known_results import ValueFault, choose_values, shorten
from trainshed.tuning.space import Space, space_of

#: The most faults that are listed: a point may name any number of unknown parameters.
FAULTS_MAX: Final = 100
#: The most unknown names that a sentence lists.
_NAMES_MAX: Final = 8


class PointFault(NamedTuple):
    """What is wrong with a first point; ``position`` is its index, ``parameter`` may be empty."""

    position: int
    parameter: str
    message: str


def check_points(
    study: StudySpec, rows: Sequence[PointRow]
) -> tuple[tuple[Values, ...], tuple[PointFault, ...]]:
    """Return the points of a study that admission has accepted, and the first faults."""
    space = space_of(study)
    points: dict[Values, str] = {}
    faults: list[PointFault] = []
    for position, row in enumerate(rows):
        chosen, value_faults = choose_values(space, row.parameters)
        point_faults = [*_check_names(space, row.parameters), *_describe_faults(value_faults)]
        if not point_faults:
            point = space.point(chosen)
            point_faults = list(_check_activity(space, row, point))
            if not point_faults and point in points:
                point_faults.append(("", f"it is the same point as {points[point]}"))
            points.setdefault(point, row.name)
        faults += [PointFault(position, *fault) for fault in point_faults]
        if len(faults) >= FAULTS_MAX:
            break
    return tuple(points), tuple(faults[:FAULTS_MAX])


def _describe_faults(faults: Sequence[ValueFault]) -> Iterator[tuple[str, str]]:
    """Yield each wrong value, and one fault for all missing ones."""
    for fault in faults:
        if fault.value:
            yield fault.parameter, f"{fault.reason}, got {fault.value}"
    missing = [fault for fault in faults if not fault.value]
    if len(missing) == 1:
        yield missing[0].parameter, missing[0].reason
    elif missing:
        names = ", ".join(fault.parameter for fault in missing)
        yield missing[0].parameter, f"{names} are missing and have no defaultValue"


def next_point(
    points: Sequence[Values], space: Space, tried: Collection[Values]
) -> Iterator[Values]:
    """Yield the first point that is not tried yet; nothing if all are."""
    for point in points:
        chosen = space.chosen(point)
        if chosen is not None and space.point(chosen) not in tried:
            yield space.point(chosen)
            return


def origin_of(
    space: Space, values: Values, points: Collection[Values], *, is_first: bool
) -> TrialOrigin:
    """Return why a trial has its values: first points come before the search.

    ``is_first``: it is the study's first trial, which has the default values.
    """
    if values in points:
        return TrialOrigin.FIRST_POINT
    is_default = is_first and space.has_defaults and _has_defaults(space, values)
    return TrialOrigin.DEFAULTS if is_default else TrialOrigin.SEARCH


def _has_defaults(space: Space, values: Values) -> bool:
    """Whether all active parameters that have a default have it, and at least one has."""
    chosen = space.chosen(values) or {}
    pairs = [(space.dimensions[index].default, value) for index, value in chosen.items()]
    equal = [default == value for default, value in pairs if default is not None]
    return bool(equal) and all(equal)


def position_of(values: Values, points: Sequence[Values]) -> int | None:
    """Return the number of a point among the first points, from 1; None for other points."""
    return points.index(values) + 1 if values in points else None


def points_of_trials(space: Space, trials: Iterable[Values]) -> Iterator[Values]:
    """Yield the points of values; values that are no point of the space are left out."""
    for chosen in space.all_chosen(list(trials)):
        if chosen is not None:
            yield space.point(chosen)


def _check_names(space: Space, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield at most one fault, for all names that the study lacks."""
    names = dict.fromkeys(dimension.name for dimension in space.dimensions)
    unknown = [name for name in values if name not in names]
    if not unknown:
        return
    are = "is not a parameter" if len(unknown) == 1 else "are not parameters"
    hint = did_you_mean(nearest_name(unknown[0], names)) if len(unknown) == 1 else ""
    listed = ", ".join(map(shorten, unknown[:_NAMES_MAX]))
    rest = len(unknown) - _NAMES_MAX
    listed += f" and {rest} more" if rest > 0 else ""
    yield unknown[0], f"{listed} {are} of the study ({', '.join(names)}){hint}"


def _check_activity(space: Space, row: PointRow, point: Values) -> Iterator[tuple[str, str]]:
    active = dict(point)
    for name in row.parameters:
        if name not in active:
            parents = ", ".join(
                sorted(
                    space.dimensions[dimension.parent].name
                    for dimension in space.dimensions
                    if dimension.name == name and dimension.parent is not None
                )
            )
            yield name, f"{name} has no effect at this value of {parents}; leave it out"
