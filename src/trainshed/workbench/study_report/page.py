"""Writes a study as one HTML page that needs no server, no network and no other file.

All texts from a server are escaped, and the page's own policy forbids it to load anything.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Final

from trainshed.model.trials import TrialRecord, format_short
from trainshed.tuning.limits import describe_safety
from trainshed.workbench.study_report.plot import Plot
from trainshed.workbench.study_view import (
    StudyView,
    describe_counts,
    describe_remarks,
    list_arguments,
    list_parameter_names,
)

#: The page may run its own scripts and draw; it may not load or send anything.
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { color: #57606a; } pre { background: #f4f6f8; padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; } th { text-align: left; }
th, td { padding: .2rem .7rem .2rem 0; vertical-align: top; }
.head th { font-weight: 600; color: #57606a; padding-right: 1.2rem; }
.head td { overflow-wrap: anywhere; }
.wide { overflow: auto; max-height: 80vh; } .drawn { overflow-x: auto; }
.trials { font-size: 13px; } .trials td { white-space: nowrap; border-top: 1px solid #e6e9ed; }
.trials th { position: sticky; top: 0; background: #fff; cursor: pointer; }
.n { text-align: right; font-variant-numeric: tabular-nums; } .best { background: #e7f6ec; }
.failed { color: #a40e26; } .pointed { outline: 2px solid #1a5fa8; }
"""

#: Draws each plot separately: if the browser cannot draw one, it still draws the others.
SCRIPT: Final = """
const showRow = (number) => {
  const row = document.getElementById("trial" + number);
  if (!row) return;
  document.querySelector("tr.pointed")?.classList.remove("pointed");
  row.classList.add("pointed");
  row.scrollIntoView({ block: "center" });
};
for (const found of document.querySelectorAll("script[data-plot]")) {
  const place = document.getElementById(found.dataset.plot);
  const fail = (error) => { place.textContent = "This plot cannot be drawn here: " + error;
    place.classList.add("failed"); };
  try {
    const figure = JSON.parse(found.textContent);
    Plotly.newPlot(place, figure.data, figure.layout, { responsive: true, displaylogo: false })
      .then(() => place.on("plotly_click", (event) => showRow(event.points[0].customdata)))
      .catch(fail);
  } catch (error) { fail(error); }
}
for (const table of document.querySelectorAll("table.trials")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let sign = -1;
    head.addEventListener("click", () => {
      sign = -sign;
      const text = (row) => row.cells[column].textContent;
      const rank = (one, other) => {
        if (!text(one) || !text(other)) { return !text(one) - !text(other); }
        const gap = Number(text(one)) - Number(text(other));
        return sign * (Number.isNaN(gap) ? text(one).localeCompare(text(other)) : gap);
      };
      body.append(...[...body.rows].sort(rank));
    });
  });
}
"""

#: The most trials of a Pareto front that are shown with their arguments.
_LEADERS_MAX: Final = 20
_NONE: Final = "<td></td>"


def page(view: StudyView, plots: Iterable[Plot], plotly_js: str, now: datetime) -> str:
    """Return the page; ``plotly_js`` is the source of plotly, which draws the plots."""
    title = escape(view.title)
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{STYLE}</style></head><body>",
            f"<h1>{title}</h1>",
            *_head(view, now),
            *_leaders(view),
            *(part for number, plot in enumerate(plots) for part in _plot(plot, number)),
            *_table(view),
            f"<script>{plotly_js}</script>",
            f"<script>{SCRIPT}</script>",
            "</body></html>",
            "",
        )
    )


def _head(view: StudyView, now: datetime) -> Iterator[str]:
    goals = ", ".join(
        f"{metric.metric_id} ({metric.goal.value.lower()})" for metric in view.objectives
    )
    rows = (
        ("Name", view.name),
        ("State", view.state),
        ("Trials", describe_counts(view)),
        ("Objective", goals),
        ("Limit", describe_safety(view.study, view.trials)),
        ("Known results", _known_results(view)),
        ("Expected", view.priors),
        ("Algorithm", view.algorithm),
        ("Time", _time(view, now)),
        ("As of", f"{now:%Y-%m-%d %H:%M:%S %Z}"),
        ("Error", view.error),
    )
    yield "<table class=head>"
    yield from (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows if text)
    yield "</table>"


def _known_results(view: StudyView) -> str:
    return ", ".join(view.known_sources) or str(view.known_result_count or "")


def _count(count: int, words: str) -> str:
    return f"{count} {words}{'' if count == 1 else 's'}"


def _time(view: StudyView, now: datetime) -> str:
    since = view.start_time or view.create_time
    if since is None:
        return ""
    spent = timedelta(seconds=int(((view.end_time or now) - since).total_seconds()))
    return f"{spent}, since {since.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _leaders(view: StudyView) -> Iterator[str]:
    leaders = view.leaders
    several = len(view.objectives) > 1
    heading = f"Pareto front: {_count(len(leaders), 'trial')}" if several else "Best trial"
    yield f"<h2>{heading}</h2>"
    if not leaders:
        yield "<p>No trial has succeeded yet.</p>"
    for trial in leaders[:_LEADERS_MAX]:
        final = trial.final.metrics if trial.final else ()
        values = ", ".join(f"{name} {format_short(value)}" for name, value in final)
        step = f" at step {trial.final.step}" if trial.final and trial.final.step else ""
        yield f"<p>Trial {trial.number}: {escape(values)}{step}. Its arguments:</p>"
        yield f"<pre>{escape(shlex.join(list_arguments(trial)))}</pre>"
    if len(leaders) > _LEADERS_MAX:
        yield f"<p>And {len(leaders) - _LEADERS_MAX} more, which the table marks.</p>"


def _plot(plot: Plot, number: int) -> Iterator[str]:
    yield f"<h2>{escape(plot.title)}</h2><p>{escape(plot.about)}</p>"
    if plot.figure:
        data = plot.figure.replace("<", "\\u003c")  # otherwise a text of it could end the element
        yield f'<div class=drawn><div class=plot id="plot{number}"></div></div>'
        yield f'<script type="application/json" data-plot="plot{number}">{data}</script>'


def _table(view: StudyView) -> Iterator[str]:
    parameters = list_parameter_names(view)
    metrics = [metric.metric_id for metric in view.study.metrics]
    leaders = {trial.number for trial in view.leaders}
    heads = ("trial", "state", *metrics, "step", *parameters, "time (s)", "remarks")
    yield "<h2>Trials</h2><p>A click on a heading sorts.</p>"
    yield "<div class=wide><table class=trials><thead><tr>"
    yield "".join(f"<th>{escape(name)}</th>" for name in heads)
    yield "</tr></thead><tbody>"
    for trial in view.trials:
        kind = " class=best" if trial.number in leaders else ""
        cells = "".join(_cells(view, trial, parameters))
        yield f'<tr id="trial{trial.number}"{kind}>{cells}</tr>'
    yield "</tbody></table></div>"


def _cells(view: StudyView, trial: TrialRecord, parameters: Sequence[str]) -> Iterator[str]:
    values = dict(trial.values)
    yield _cell(trial.number)
    yield _cell(trial.state.value)
    for metric in view.study.metrics:
        yield _cell(trial.final.value(metric.metric_id) if trial.final else None)
    yield _cell(trial.final.step if trial.final else None)
    yield from (_cell(values.get(name)) for name in parameters)
    yield _cell(_seconds(trial))
    yield _cell("; ".join(describe_remarks(view, trial)) or None)


def _cell(value: float | str | None) -> str:
    if value is None:
        return _NONE
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f"<td class=n>{format_short(value)}</td>"


def _seconds(trial: TrialRecord) -> float | None:
    if trial.start_time is None or trial.end_time is None:
        return None
    return round((trial.end_time - trial.start_time).total_seconds(), 3)
