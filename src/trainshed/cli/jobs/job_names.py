"""Which job a person means: by its id, number, full name, or display name if only one has it."""

import contextlib
import difflib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from trainshed.cli.connecting import ServerPlace
from trainshed.client.collections import JobCollection, native_path, path_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
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


def resource_name(place: ServerPlace, of: JobCollection, text: str) -> str:
    """The id or full name of a resource of one collection that a text names.

    A text that is neither a number nor a full name is a display name.  Raises UsageFault where
    several have it, and ServerRefusal where none has.
    """
    if not of.located or "/" in text or text.isdecimal():
        return text
    message = f"project {place.project} has no {of.noun} {text}"
    refusal = ServerRefusal(_NOT_FOUND, "NOT_FOUND", message, [])
    rows = _rows(place, refusal, q=text)
    same = [row for row in rows if row["displayName"] == text and f"/{of.word}/" in row["name"]]
    return str(_only(same, text, of.noun)["name"]) if same else _miss(place, text, refusal)


@contextlib.contextmanager
def report_other_project(place: ServerPlace, text: str) -> Iterator[None]:
    """Add to the refusal of a job that is not there in which other project there is one.

    For an id; a full name says its project.
    """
    try:
        yield
    except ServerRefusal as refusal:
        is_missing = refusal.http_status == _NOT_FOUND and "/" not in text
        hint = _elsewhere(place, text) if is_missing else ""
        if not hint or hint in refusal.message:
            raise
        message = f"{refusal.message}; {hint}"
        raise ServerRefusal(404, refusal.status, message, refusal.details) from None


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
    if not same:
        _miss(place, name, refusal)
    return native_path(str(_only(same, name, "job")["name"]), place.project)


def _only(same: list[Json], name: str, noun: str) -> Json:
    if len(same) > 1:
        count = f"{len(same)} {noun}s are called {name!r}"
        raise UsageFault(f"{count}; name one by its id: {_some(same)}")
    return same[0]


def _rows(
    place: ServerPlace, refusal: ServerRefusal, project: str | None = None, **query: object
) -> list[Json]:
    """The newest rows; a server without the list has nothing to say beside its refusal."""
    try:
        page = place.server.call(
            "GET",
            list_path(project or place.project),
            query={"pageSize": _COMPARED_MAX, **query},
        )
    except ServerRefusal:
        raise refusal from None
    rows: list[Json] = page["jobs"]
    return rows


def _miss(place: ServerPlace, name: str, refusal: ServerRefusal) -> NoReturn:
    names = {text for row in _rows(place, refusal) for text in (row["displayName"], id_of_row(row))}
    near = list(_near(name, names))
    hint = f"did you mean {', '.join(near)}? " if near else ""
    if elsewhere := _elsewhere(place, name):
        hint = f"{elsewhere}. "
    message = f"{refusal.message}; {hint}List the jobs with: trainshed jobs list"
    raise ServerRefusal(refusal.http_status, refusal.status, message, refusal.details)


def _elsewhere(place: ServerPlace, name: str) -> str:
    """Which other project, that the caller may see, has a job of a name or an id; else nothing."""
    try:
        rows = _rows(place, ServerRefusal(_NOT_FOUND, "", "", []), "-", q=name)
    except (ServerRefusal, Unreachable):
        return ""
    same = [row for row in rows if name in (row["displayName"], id_of_row(row))]
    projects = {str(row["name"]).split("/")[1] for row in same} - {place.project}
    named = sorted(projects)
    return f"project {named[0]} has it: --project {named[0]}" if named else ""


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
