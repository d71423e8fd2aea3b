"""Watches a tuning job until it has ended, for ``watch``.

On a terminal the view is redrawn in place; in other output each change is printed as a line.
"""

import contextlib
import math
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trainshed.cli.connecting import ServerContext
from trainshed.cli.jobs.log_lines import in_one_line, truncate
from trainshed.cli.jobs.submitted import report_job_continues
from trainshed.cli.jobs.watch_view import Screen, format_span
from trainshed.cli.terminal import (
    DIM,
    note,
    out,
    out_json,
    paint,
    state_text,
    table,
    wants_colour,
)
from trainshed.client.collections import FINAL_STATES, state_of
from trainshed.client.faults import Json, Unreachable
from trainshed.client.following import FollowedJob, native_study, native_trials
from trainshed.client.http import Server
from trainshed.model.trials import TrialRecord, TrialState, format_short
from trainshed.tuning.fronts import describe_front
from trainshed.tuning.limits import broken_limits, describe_safety
from trainshed.wire.native_v1 import latest
from trainshed.workbench.study_view import (
    StudyView,
    add_native_study,
    add_native_trials,
    describe_counts,
    describe_early_stop,
    describe_measurement,
    describe_remarks,
    describe_start,
    format_parameters,
    list_arguments,
    rank_trials,
    read_view,
)

#: Seconds between two reads of the study.  A large document is read less often: reads take at most
#: this share of the time.
POLL_S: Final = 1.0
SHARE_MAX: Final = 0.2

#: The field of AI Platform's documents that contains the trials.
_ML_TRIALS: Final = "trainingOutput"


def follow(context: ServerContext, name: str, path: str, *, as_json: bool) -> int:
    """Watch the study at a path of its dialect; return 0 if it succeeds, else 1."""
    followed = FollowedJob(context.server, path, note)
    read = _NativeReads(context.server, name, context.project)
    try:
        if as_json:
            state = _print_json(followed)
        elif sys.stdout.isatty():
            state = _draw_live(followed, read)
        else:
            state = _print_changes(followed, read)
    except KeyboardInterrupt:
        return report_job_continues(context, "study", path.removeprefix("/v1/"))
    return 0 if state == "SUCCEEDED" else 1


class _NativeReads:
    """Reads what the native API adds to a study."""

    def __init__(self, server: Server, name: str, project: str) -> None:
        self._trials = native_trials(server, name, project)
        self._read_study = partial(native_study, server, name, project)
        self._study: Json | None = None

    def complete(self, view: StudyView) -> StudyView:
        """Add the description, which is read once, and the newest trials.

        What the study began with never changes.
        """
        if self._study is None:
            with contextlib.suppress(Unreachable):  # the caller waits for the server
                self._study = self._read_study()
        return add_native_trials(add_native_study(view, self._study or {}), self._trials.read())


def _studies(followed: FollowedJob, read: _NativeReads) -> Iterator[StudyView]:
    """Yield the study with its native data, repeatedly until it has ended."""
    for document in _documents(followed):
        yield read.complete(read_view(document))


def _documents(followed: FollowedJob) -> Iterator[Json]:
    last_read_s = math.inf
    while True:
        began = time.monotonic()
        document = followed.job()
        yield document
        if state_of(document) in FINAL_STATES:
            return
        read_s = time.monotonic() - began
        # the shorter of two: a read during a restart of the server takes long only once
        followed.pause(max(POLL_S, min(read_s, last_read_s) / SHARE_MAX))
        last_read_s = read_s


def _draw_live(followed: FollowedJob, read: _NativeReads) -> str:
    view = TuningView(colour=wants_colour("auto", sys.stdout))
    followed.note = view.set_remark
    with Screen(sys.stdout) as screen:
        for study in _studies(followed, read):
            size = shutil.get_terminal_size()
            screen.draw(view.lines(study, size, datetime.now(tz=UTC)))
    for line in best_arguments(study):
        out(line)
    return study.state


def _print_changes(followed: FollowedJob, read: _NativeReads) -> str:
    previous: StudyView | None = None
    for study in _studies(followed, read):
        if previous is None:
            for line in describe_start(study):
                out(in_one_line(line))
        for line in changes(previous, study):
            out(line)
        previous = study
    summary = (*best_table(study), *_describe_several(study), *best_arguments(study))
    out("\n".join(("", *summary, f"state: {study.state}")))
    return study.state


def _print_json(followed: FollowedJob) -> str:
    last_parts: dict[str, Any] = {}
    state = ""
    for document in _documents(followed):
        for key, value in _parts(document):
            if last_parts.get(key) != value:
                last_parts[key] = value
                out_json({key.partition(" ")[0]: value}, indent=None)
        state = state_of(document)
    return state


def _parts(document: Json) -> Iterator[tuple[str, Json]]:
    output = document.get(_ML_TRIALS, document)
    rest = {key: value for key, value in output.items() if key != "trials"}
    yield "job", {**document, _ML_TRIALS: rest} if _ML_TRIALS in document else rest
    for index, trial in enumerate(output.get("trials", ())):
        yield f"trial {trial.get('id') or trial.get('trialId') or index}", trial


#: The number of the best trials that are shown if not all trials fit.
_BEST_MAX: Final = 10
#: Lines of the table's header and rule; lines of the three group titles and the count of the rest.
_TABLE_LINES, _GROUP_LINES = 2, 4

#: The indent of continuation lines.
_INDENT: Final = "  "
#: A text may use at most one in four of the lines of the screen.
_TEXT_PART: Final = 4

_COLOURS: Final = {
    TrialState.INFEASIBLE: "\x1b[31m",
    TrialState.STOPPING: "\x1b[33m",
    TrialState.PAUSED: "\x1b[33m",
    TrialState.ACTIVE: "\x1b[36m",
}
_BEST_COLOUR: Final = "\x1b[1;32m"

Group = tuple[str, Sequence[TrialRecord]]


class TuningView:
    """A study as lines of text that fit on a screen."""

    def __init__(self, *, colour: bool) -> None:
        """Start without a remark."""
        self._colour = colour
        self._remark = ""

    def set_remark(self, text: str) -> None:
        """Show a remark in the next drawing."""
        self._remark = text

    def lines(self, view: StudyView, size: os.terminal_size, now: datetime) -> list[str]:
        """Return the lines of the view; the last line of the screen stays free for the cursor."""
        lines = [self._head(view, now, size.columns)]
        lines += [line for text in _summarize(view) for line in _wrap_text(text, size)]
        remarks = [in_one_line(text) for text in (view.error, self._remark) if text]
        lines += [truncate(text, size.columns) for text in remarks]
        self._remark = ""
        if view.trials:
            room = size.lines - 1 - len(lines) - 1 - _TABLE_LINES
            lines += ["", *self._table(view, groups(view, room), size.columns)]
        return lines[: size.lines - 1]

    def _head(self, view: StudyView, now: datetime, width: int) -> str:
        since, end = view.start_time or view.create_time, view.end_time
        age = f" {'after' if end else 'for'} {format_span((end or now) - since)}" if since else ""
        name = truncate(in_one_line(view.title), max(width - len(f": {view.state}{age}"), 1))
        state = state_text(view.state, on=self._colour)
        return f"{name}: {state}{age}"

    def _table(self, view: StudyView, sections: Sequence[Group], width: int) -> Iterator[str]:
        """Yield all groups as one table with common columns, and titles between its rows."""
        leaders = {trial.number for trial in view.leaders}
        rows = iter(
            trial_table(view, [trial for _, trials in sections for trial in trials], leaders)
        )
        yield truncate(next(rows), width)
        yield truncate(next(rows), width)
        for title, trials in sections:
            if title:
                yield paint(truncate(title, width), DIM, on=self._colour)
            for trial in trials:
                colour = _BEST_COLOUR if trial.number in leaders else _COLOURS.get(trial.state, "")
                yield paint(truncate(next(rows), width), colour, on=self._colour and bool(colour))


def groups(view: StudyView, room: int) -> list[Group]:
    """Return the trials to show: all of them, or the running, the best and the newest ones.

    No trial is shown twice; the title of the last group counts the trials that are left out.
    """
    if len(view.trials) <= max(room, 0):
        return [("", view.trials)]
    rows_left = max(room - _GROUP_LINES, 3)
    running = [trial for trial in view.trials if not trial.state.is_final][: max(rows_left // 3, 1)]
    best = rank_trials(view)[: min(_BEST_MAX, max((rows_left - len(running)) // 2, 1))]
    numbers = {trial.number for trial in (*running, *best)}
    ended = (t for t in reversed(view.trials) if t.state.is_final and t.number not in numbers)
    newest = [trial for trial, _ in zip(ended, range(rows_left - len(numbers)), strict=False)]
    rest = len(view.trials) - len(numbers) - len(newest)
    parts: list[Group] = [("running", running), ("best", best), ("newest", newest)]
    sections = [(title, trials) for title, trials in parts if trials]
    return [*sections, (f"and {rest} more", ())] if rest else sections


def best_table(view: StudyView) -> list[str]:
    """Return the lines of the best trials of a study, and the count of the others."""
    best = rank_trials(view)[:_BEST_MAX]
    if not best:
        return ["no trial has succeeded"]
    rest = len(view.trials) - len(best)
    more = [f"and {rest} more trials; `report` lists all"] if rest else []
    return [*trial_table(view, best, {trial.number for trial in view.leaders}), *more]


def best_arguments(view: StudyView) -> list[str]:
    """Return the arguments of the best trials, complete, so that they can be copied and reused."""
    return [
        f"the arguments of trial {trial.number}: {in_one_line(shlex.join(list_arguments(trial)))}"
        for trial in view.leaders[:_BEST_MAX]
        if trial.values
    ]


def trial_table(view: StudyView, trials: Sequence[TrialRecord], leaders: set[int]) -> Iterator[str]:
    """Yield a header, a rule and a line for each trial; ``*`` marks the leaders."""
    names = [in_one_line(metric.metric_id).upper() for metric in view.study.metrics]
    heads = ("", "TRIAL", "STATE", "STEP", *names, "PARAMETERS")
    rows = (list(_row(view, trial, leaders)) for trial in trials)
    yield from table(heads, rows).splitlines()


def _row(view: StudyView, trial: TrialRecord, leaders: set[int]) -> Iterator[object]:
    last = latest(trial)
    yield "*" if trial.number in leaders else ""
    yield trial.number
    yield trial.state.value
    yield last.step if last else None
    for metric in view.study.metrics:
        yield _format_metric(last.value(metric.metric_id) if last else None)
    remarks = describe_remarks(view, trial)
    yield in_one_line("; ".join((format_parameters(trial), *remarks)))


def _format_metric(value: float | None) -> str | None:
    return None if value is None else format_short(value)


def _wrap_text(text: str, size: os.terminal_size) -> list[str]:
    """Wrap a text into at most a quarter of the screen's lines."""
    lines_max = max(size.lines // _TEXT_PART, 1)
    return textwrap.wrap(
        in_one_line(text),
        max(size.columns, len(_INDENT) + 1),
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
        max_lines=lines_max,
        placeholder="…",
    )


def _summarize(view: StudyView) -> Iterator[str]:
    yield from map(in_one_line, describe_start(view))
    yield f"trials {describe_counts(view)}"
    leaders = view.leaders
    if len(view.objectives) == 1 and leaders:
        best = leaders[0]
        yield f"best: trial {best.number}, {describe_measurement(best)}: {format_parameters(best)}"
    yield from _describe_several(view)


def _describe_several(view: StudyView) -> Iterator[str]:
    """Yield the front of several objectives, and how many trials meet the limits."""
    leaders = [trial.number for trial in view.leaders]
    if len(view.objectives) > 1 and leaders:
        yield describe_front(leaders)
    if safety := describe_safety(view.study, view.trials):
        yield in_one_line(safety)


def changes(previous: StudyView | None, current: StudyView) -> Iterator[str]:
    """Yield the study's new state, and each trial that began, ended or became the best.

    The line of the study's end follows the lines of its last trials.
    """
    is_new = previous is None or previous.state != current.state
    summary = f"{current.title}: {current.state}; {describe_counts(current)}"
    state = [in_one_line(summary)] if is_new else []
    is_over = current.state in FINAL_STATES
    yield from () if is_over else state
    yield from _list_changes(previous, current)
    if current.error and (previous is None or not previous.error):
        yield in_one_line(f"error: {current.error}")
    yield from state if is_over else ()


def _list_changes(previous: StudyView | None, current: StudyView) -> Iterator[str]:
    states = {trial.number: trial.state for trial in previous.trials} if previous else {}
    old_leaders = {trial.number for trial in previous.leaders} if previous else set()
    new_leaders = {trial.number for trial in current.leaders} - old_leaders
    for trial in current.trials:
        if states.get(trial.number) is not trial.state:
            lead = _describe_lead(current) if trial.number in new_leaders else ""
            yield in_one_line(
                f"trial {trial.number}: {trial.state.value}"
                f"{_describe_outcome(current, trial)}{lead}"
            )


def _describe_outcome(view: StudyView, trial: TrialRecord) -> str:
    if not trial.state.is_final:
        if remark := describe_early_stop(view, trial):
            is_paused = trial.state is TrialState.PAUSED  # the line has the state already
            text = remark.removeprefix("paused") if is_paused else f", {remark}"
            return f"{text}: {describe_measurement(trial)}"
        origin = view.origins.get(trial.number, "")
        origin = f", {origin}" if origin else ""
        return f"{origin}: {format_parameters(trial)}" if trial.values else origin
    early = f", {describe_early_stop(view, trial)}" if trial.stopped_early else ""
    if trial.state is TrialState.INFEASIBLE:
        return f"{early}: {trial.infeasible_reason}" if trial.infeasible_reason else early
    limits = "".join(f"; {limit.reason}" for limit in broken_limits(view.study, trial))
    return f"{early}: {describe_measurement(trial)}{limits}"


def _describe_lead(view: StudyView) -> str:
    if len(view.objectives) == 1:
        return ", the best so far"
    return f", in the Pareto front of {len(view.leaders)}"
