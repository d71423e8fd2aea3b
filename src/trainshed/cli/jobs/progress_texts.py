"""Texts about the progress of running jobs: their steps, the time of a step, the time to go."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainshed.cli.jobs.resource_texts import duration_text
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.figures import list_progress

if TYPE_CHECKING:
    from trainshed.client.http import Server


def read_progress(server: "Server", project: str, job: str | None = None) -> Mapping[str, Json]:
    """Return the progress of the running jobs of a project by full name; ``-``: of all projects.

    With ``job``, its id, only that job is read.  Empty if the server cannot tell now: the caller
    shows the jobs without it.
    """
    try:
        rows = list_progress(server, project, job)["rows"]
    except (ServerRefusal, Unreachable):
        return {}
    return {row["job"]: row for row in rows}


def steps_text(progress: Json | None) -> str:
    """Return ``1,200 of 5,000``, ``1,200``, or an empty text before the first step."""
    if progress is None or progress["step"] is None:
        return ""
    total = progress["total"]
    return f"{progress['step']:,}" + (f" of {total:,}" if total else "")


def step_time_text(progress: Json | None) -> str:
    """Return the newest mean time of a step, such as ``12 ms`` or ``3.02 s``; empty if unknown."""
    if progress is None or progress["step_s"] is None:
        return ""
    seconds = float(progress["step_s"])
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else duration_text(seconds)  # noqa: PLR2004


def step_cells(progress: Json | None) -> tuple[str, str]:
    """Return the cells of the columns STEP and PER STEP; empty texts for what is unknown."""
    return steps_text(progress), step_time_text(progress)


def progress_line(progress: Json | None) -> str:
    """Return the steps, the time of a step and the time to go in one line; empty without steps."""
    steps = steps_text(progress)
    if progress is None or not steps:
        return ""
    step, total, step_s = (progress[name] for name in ("step", "total", "step_s"))
    share = f" ({min(100, 100 * step // total)} %)" if total else ""
    pace = step_time_text(progress)
    parts = [f"step {steps}{share}", f"{pace} a step" if pace else ""]
    if total and step_s is not None:
        parts.append(f"{duration_text(max(0, total - step) * step_s)} to go")
    return ", ".join(filter(None, parts))
