"""Reads from a study's story what it had before its first trial: sources, points, the report.

The events of the submission are stored with the study in one write and never change, so a repeated
request gets the first answer, whatever has become of the sources.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from trainshed.model.study_start import FIRST_POINTS, KNOWN_RESULTS
from trainshed.service.jobs.study_answers import KnownSource, StudyStartReport
from trainshed.store.opening import Store
from trainshed.store.records.steps import StoredEvent

#: The keys of the data of these events: the whole report, the sources of known results, and the
#: place in a file of each first point, in the order of the points.
REPORT: Final = "report"
SOURCES: Final = "sources"
POINT_SOURCES: Final = "places"

#: How many first events of a study are read: those of its submission are among them.
_HEAD: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStory:
    """What the story of a study says about its start; empty for studies of older versions."""

    report: StudyStartReport | None = None
    sources: Sequence[KnownSource] = ()
    """With the study that this one continues, which comes first."""
    point_sources: Sequence[str] = ()
    """The place in a file of each first point; empty for a point that no file has."""


def read_start_story(store: Store, uid: int) -> StartStory:
    """Read the start of a study from its first events."""
    events = [e for e in store.events(uid, limit=_HEAD) if e.kind in {KNOWN_RESULTS, FIRST_POINTS}]
    report = next(filter(None, map(_read_report, events)), None)
    continued = [one for e in events if e.kind == KNOWN_RESULTS for one in _read_sources(e.data)]
    points = [event for event in events if event.kind == FIRST_POINTS]
    return StartStory(
        report=report,
        sources=[*continued, *(report.sources if report else ())],
        point_sources=[str(s) for e in points for s in _list(e.data.get(POINT_SOURCES))],
    )


@functools.cache
def _report_adapter() -> TypeAdapter[StudyStartReport]:
    return TypeAdapter(StudyStartReport)  # on first use: adapters slow the server's start down


def _read_report(event: StoredEvent) -> StudyStartReport | None:
    try:
        return _report_adapter().validate_python(event.data[REPORT])
    except (KeyError, ValidationError):
        return None


def _read_sources(data: Mapping[str, Any]) -> Iterator[KnownSource]:
    for source in _list(data.get(SOURCES)):
        if isinstance(source, dict):
            yield KnownSource(**source)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
