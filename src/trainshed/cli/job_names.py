"""Which job a person means: by its id, number, full name, or display name if only one has it."""

import difflib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from trainshed.cli.connecting import ServerPlace
from trainshed.client.collections import native_path, path_of
from trainshed.client.faults import Json, ServerRefusal
from trainshed.model.faults import UsageFault
from trainshed.model.resource_names import JOBS, ResourceName

HELP: Final = (
    "AI Platform job id, Vertex number, full name, or a display name that only one job has"
)
TRIAL_HELP: Final = f"{HELP}; JOB/trials/N is a trial of a tuning job"

_TRIAL: Final = re.compile(r"(?P<job>.+)/trials/(?P<trial>[^/]+)")
_NOT_FOUND: Final = 404
#: How many of the newest jobs are compared with a name that is not there.
_COMPARED_MAX: Final = 1000
_NAMED_MAX: Final = 5


class NamedJob(NamedTuple):
    """A job that is there: the path of its native routes, and it in short."""

    path: str
    job: Json
    trial: str | None = None
    """The number of a trial that was named with it."""

    @property
    def name(self) -> str:
        """Its full name."""
        return str(self.job["name"])


def find_job(place: ServerPlace, text: str) -> NamedJob:
    """The job of a text.

    Raises UsageFault for a text that names several jobs or cannot be a name, and ServerRefusal,
    with the names most like it, where there is none.
    """
    match = _TRIAL.fullmatch(text)
    name, trial = (match["job"], match["trial"]) if match else (text, None)
    _check_name(name)
    path = native_path(name, place.project)
    try:
        return NamedJob(path, place.server.call("GET", path), trial)
    except ServerRefusal as refusal:
        if refusal.http_status != _NOT_FOUND or "/" in name:
            raise
        path = _path_by_display_name(place, name, refusal)
        return NamedJob(path, place.server.call("GET", path), trial)


def list_path(project: str) -> str:
    """The path of the list of all jobs of a project; ``-``: of all projects."""
    return path_of("trainshed", "v1", "projects", project, "jobs")


def _check_name(name: str) -> None:
    if "/" not in name:
        return
    try:
        ResourceName.parse(name)
    except ValueError:
        form = "projects/P/jobs/J or projects/P/locations/L/COLLECTION/NUMBER"
        raise UsageFault(f"JOB must be an id or a full name such as {form}, got {name!r}") from None


def _path_by_display_name(place: ServerPlace, name: str, refusal: ServerRefusal) -> str:
    rows = _rows(place, refusal, q=name)
    same = [row for row in rows if row["displayName"] == name]
    if len(same) > 1:
        raise UsageFault(f"{len(same)} jobs are called {name!r}; name one by its id: {_some(same)}")
    if not same:
        raise _unknown(place, name, refusal)
    return native_path(str(same[0]["name"]), place.project)


def _rows(place: ServerPlace, refusal: ServerRefusal, **query: object) -> list[Json]:
    """The newest rows; a server without the list has nothing to say beside its refusal."""
    try:
        page = place.server.call(
            "GET", list_path(place.project), query={"pageSize": _COMPARED_MAX, **query}
        )
    except ServerRefusal:
        raise refusal from None
    rows: list[Json] = page["jobs"]
    return rows


def _unknown(place: ServerPlace, name: str, refusal: ServerRefusal) -> ServerRefusal:
    names = {text for row in _rows(place, refusal) for text in (row["displayName"], id_of_row(row))}
    near = list(_near(name, names))
    hint = f"did you mean {', '.join(near)}? " if near else ""
    message = f"{refusal.message}; {hint}List the jobs with: trainshed jobs list"
    return ServerRefusal(refusal.http_status, refusal.status, message, refusal.details)


def _near(name: str, names: set[str]) -> Iterator[str]:
    small = {text.lower(): text for text in sorted(names)}
    parts = [text for text in small if name.lower() in text]
    like = difflib.get_close_matches(name.lower(), small, n=_NAMED_MAX)
    yield from (small[text] for text in dict.fromkeys([*like, *parts][:_NAMED_MAX]))


def id_of_row(row: Json) -> str:
    """The id by which a listed job is asked for."""
    _, _, collection, *rest = str(row["name"]).split("/")
    return "/".join(rest) if collection == JOBS else str(rest[-1])


def _some(rows: list[Json]) -> str:
    shown = ", ".join(id_of_row(row) for row in rows[:_NAMED_MAX])
    return f"{shown} and {len(rows) - _NAMED_MAX} more" if len(rows) > _NAMED_MAX else shown
