"""Finds a job by its id, number, full name, or a display name that only one job has."""

import contextlib
import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn

from trainshed.cli.connecting import ServerContext
from trainshed.client.collections import JobCollection, native_path, path_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.model.faults import UsageFault
from trainshed.model.resource_names import JOBS, ResourceName

HELP: Final = (
    "AI Platform job id, Vertex number, full name, or a display name that only one job has; "
    "PROJECT/JOB is a job of another project"
)
TRIAL_HELP: Final = f"{HELP}; JOB/trials/N is a trial of a tuning job"

#: The form of jobs in tables of several projects, such as ``trainshed usage --by job``.
_OF_PROJECT: Final = re.compile(r"(?P<project>[^/]+)/(?P<job>[^/]+)")
_TRIAL: Final = re.compile(r"(?P<job>.+)/trials/(?P<trial>[^/]+)")
_NOT_FOUND: Final = 404
#: The number of the newest jobs that are compared with a name that no job has.
_COMPARED_MAX: Final = 1000
#: The most names or ids that a message lists.
_LISTED_MAX: Final = 5


class NamedJob(NamedTuple):
    """A job that exists: the path of its native routes, and its short native document."""

    path: str
    job: Json
    trial: str | None = None
    """The trial that the caller named after the job, as in ``JOB/trials/2``."""

    @property
    def name(self) -> str:
        """Return the full name of the job."""
        return str(self.job["name"])


def find_job(context: ServerContext, text: str) -> NamedJob:
    """Find the job that a text names.

    Raises UsageFault if the text is malformed or several jobs have it as their name, and
    ServerRefusal, with similar names, if no job has it.
    """
    match = _TRIAL.fullmatch(text)
    name, trial = (match["job"], match["trial"]) if match else (text, None)
    if match := _OF_PROJECT.fullmatch(name):
        context, name = replace(context, project=match["project"]), match["job"]
    _check_name(name)
    path = native_path(name, context.project)
    try:
        return NamedJob(path, context.server.call("GET", path), trial)
    except ServerRefusal as refusal:
        if refusal.http_status != _NOT_FOUND or "/" in name:
            raise
        path = _find_path(context, name, refusal)
        return NamedJob(path, context.server.call("GET", path), trial)


def find_trial(context: ServerContext, named: NamedJob) -> Json:
    """Return the summary of the named trial.  Raises ServerRefusal if there is none."""
    trials: list[Json] = context.server.call("GET", f"{named.path}/trials")["trials"]
    for trial in trials:
        if str(trial["number"]) == named.trial:
            return trial
    if trials:
        message = f"{named.name} has no trial {named.trial} (accepted: 1 to {len(trials)})"
    else:
        message = f"{named.name} has no trials; name the job without /trials/{named.trial}"
    raise ServerRefusal(404, "NOT_FOUND", message, [])


def find_path(context: ServerContext, text: str) -> str:
    """Return the path of the native routes of a job; for a trial, of the job that runs it.

    Raises as ``find_job`` and ``find_trial`` do.
    """
    named = find_job(context, text)
    if not named.trial:
        return named.path
    return f"{named.path.rpartition('/')[0]}/{find_trial(context, named)['job']}"


def resource_name(context: ServerContext, collection: JobCollection, text: str) -> str:
    """Return the id or full name of the resource of one collection that a text names.

    A text that is neither a number nor a full name is a display name.  Raises UsageFault if several
    resources have it, and ServerRefusal if none has.
    """
    if not collection.located or "/" in text or text.isdecimal():
        return text
    message = f"project {context.project} has no {collection.noun} {text}"
    refusal = ServerRefusal(_NOT_FOUND, "NOT_FOUND", message, [])
    rows = _rows(context, refusal, q=text)
    matches = [
        row for row in rows if row["displayName"] == text and f"/{collection.word}/" in row["name"]
    ]
    return (
        str(_require_one(matches, text, collection.noun)["name"])
        if matches
        else _raise_missing(context, text, refusal)
    )


@contextlib.contextmanager
def report_other_project(context: ServerContext, text: str) -> Iterator[None]:
    """Add to a NOT_FOUND refusal the other project that has a job of this id.

    A full name gets no hint: it contains its project.
    """
    try:
        yield
    except ServerRefusal as refusal:
        is_missing = refusal.http_status == _NOT_FOUND and "/" not in text
        hint = _find_in_other_projects(context, text) if is_missing else ""
        if not hint or hint in refusal.message:
            raise
        message = f"{refusal.message}; {hint}"
        raise ServerRefusal(404, refusal.status, message, refusal.details) from None


def list_path(project: str) -> str:
    """Return the path of the list of all jobs of a project; ``-`` stands for all projects."""
    return path_of("trainshed", "v1", "projects", project, "jobs")


def _check_name(name: str) -> None:
    if "/" not in name:
        return
    try:
        ResourceName.parse(name)
    except ValueError:
        form = "P/J, projects/P/jobs/J or projects/P/locations/L/COLLECTION/NUMBER"
        raise UsageFault(f"JOB must be an id or a full name such as {form}, got {name!r}") from None


def _find_path(context: ServerContext, name: str, refusal: ServerRefusal) -> str:
    matches = _rows_of(context, name, refusal) or _rows_of(context, name, refusal, kind="TRIAL")
    if not matches:
        _raise_missing(context, name, refusal)
    return native_path(str(_require_one(matches, name, "job")["name"]), context.project)


def _rows_of(
    context: ServerContext, name: str, refusal: ServerRefusal, **query: object
) -> list[Json]:
    """Return the newest jobs of a display name; trials only if the query names their kind."""
    rows = _rows(context, refusal, None, q=name, **query)
    return [row for row in rows if row["displayName"] == name]


def _require_one(matches: list[Json], name: str, noun: str) -> Json:
    if len(matches) > 1:
        count = f"{len(matches)} {noun}s are called {name!r}"
        raise UsageFault(f"{count}; give the id of one of them: {_join_ids(matches)}")
    return matches[0]


def _rows(
    context: ServerContext, refusal: ServerRefusal, project: str | None = None, **query: object
) -> list[Json]:
    """Return the newest jobs; raise ``refusal`` if the server does not list them."""
    try:
        page = context.server.call(
            "GET",
            list_path(project or context.project),
            query={"pageSize": _COMPARED_MAX, **query},
        )
    except ServerRefusal:
        raise refusal from None
    rows: list[Json] = page["jobs"]
    return rows


def _raise_missing(context: ServerContext, name: str, refusal: ServerRefusal) -> NoReturn:
    names = {
        text for row in _rows(context, refusal) for text in (row["displayName"], id_of_row(row))
    }
    names_near = list(_find_similar(name, names))
    hint = f"did you mean {', '.join(names_near)}? " if names_near else ""
    if other_project := _find_in_other_projects(context, name):
        hint = f"{other_project}. "
    verb = "List" if hint else "list"
    message = f"{refusal.message}; {hint}{verb} the jobs with: trainshed jobs list"
    raise ServerRefusal(refusal.http_status, refusal.status, message, refusal.details)


def _find_in_other_projects(context: ServerContext, name: str) -> str:
    """Return a hint at another project that has a job of this name or id; empty if none has."""
    try:
        rows = _rows(context, ServerRefusal(_NOT_FOUND, "", "", []), "-", q=name)
    except (ServerRefusal, Unreachable):
        return ""
    matches = [row for row in rows if name in (row["displayName"], id_of_row(row))]
    projects = {str(row["name"]).split("/")[1] for row in matches} - {context.project}
    names = sorted(projects)
    return f"project {names[0]} has it: --project {names[0]}" if names else ""


def _find_similar(name: str, names: set[str]) -> Iterator[str]:
    lowercase = {text.lower(): text for text in sorted(names)}
    containing = [text for text in lowercase if name.lower() in text]
    similar = difflib.get_close_matches(name.lower(), lowercase, n=_LISTED_MAX)
    yield from (lowercase[text] for text in dict.fromkeys([*similar, *containing][:_LISTED_MAX]))


def id_of_row(row: Json) -> str:
    """Return the id under which ``find_job`` finds a listed job."""
    _, _, collection, *rest = str(row["name"]).split("/")
    return "/".join(rest) if collection == JOBS else str(rest[-1])


def title_of(display_name: str, job_id: str) -> str:
    """Return ``NAME (NUMBER)`` for a job of Vertex; the id alone for one of AI Platform."""
    return job_id if display_name in {"", job_id} else f"{display_name} ({job_id})"


def _join_ids(rows: list[Json]) -> str:
    ids = ", ".join(id_of_row(row) for row in rows[:_LISTED_MAX])
    return f"{ids} and {len(rows) - _LISTED_MAX} more" if len(rows) > _LISTED_MAX else ids
