"""Draws the Pareto front of a study, and how it grew.

Optuna's own plot of a front does not connect its trials, names no parameters and ends at three
objectives, so this module draws pairs of objectives; more than four are parallel coordinates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it has no stubs
from plotly.subplots import make_subplots  # type: ignore[import-untyped]  # the same

from trainshed.model.study import Goal, Metric
from trainshed.model.trials import TrialRecord, format_short
from trainshed.tuning.fronts import front_history
from trainshed.tuning.limits import broken_limits
from trainshed.tuning.optuna_studies import shown
from trainshed.tuning.ranking import final_value
from trainshed.workbench.study_report.plot import HEIGHT_PX, MARGIN_PX, Plot, lay_out
from trainshed.workbench.study_view import StudyView

#: With more objectives than this there are too many pairs.
_PAIRS_MAX: Final = 4
_IN_ROW: Final = 3
_ROW_PX: Final = 360
_TWO: Final = 2

_TITLE: Final = "Pareto front"
_ABOUT: Final = (
    "The trials that no other one beats in one objective without being worse in another{line}. "
    "Paler trials are beaten, crossed ones are beyond a limit. Point at a trial to see its "
    "parameters; a click shows it in the table."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of trials in the plot."""

    name: str
    marker: dict[str, Any]
    trials: Sequence[TrialRecord]


def front_plots(view: StudyView) -> Iterator[Plot]:
    """Draw the front of several objectives, and its growth; nothing for one objective."""
    metrics = view.objectives
    if len(metrics) < _TWO:
        return
    valued = [t for t in view.trials if all(final_value(t, m) is not None for m in metrics)]
    if not valued:
        yield Plot(title=_TITLE, about="No trial has finished with all values yet.")
        return
    kinds = _sort_by_kind(view, valued)
    yield _draw_pairs(metrics, kinds) if len(metrics) <= _PAIRS_MAX else _draw_lines(metrics, kinds)
    yield from _draw_growth(view)


def _sort_by_kind(view: StudyView, trials: Sequence[TrialRecord]) -> tuple[_Kind, _Kind, _Kind]:
    leaders = {trial.number for trial in view.leaders}
    beyond = {t.number for t in trials if broken_limits(view.study, t)}
    others = [t for t in trials if t.number not in leaders | beyond]
    return (
        _Kind(name="other trials", marker={"color": "#7b8794", "opacity": 0.5}, trials=others),
        _Kind(
            name="beyond a limit",
            marker={"color": "#8a5300", "symbol": "x-thin-open", "size": 8},
            trials=[t for t in trials if t.number in beyond],
        ),
        _Kind(
            name="in the front",
            marker={"color": "#1b6e3a", "size": 9},
            trials=[t for t in trials if t.number in leaders],
        ),
    )


def _draw_pairs(metrics: Sequence[Metric], kinds: Sequence[_Kind]) -> Plot:
    pairs = list(combinations(metrics, 2))
    rows = -(-len(pairs) // _IN_ROW)
    figure = make_subplots(rows=rows, cols=min(len(pairs), _IN_ROW), horizontal_spacing=0.09)
    for index, (across, up) in enumerate(pairs):
        place = {"row": index // _IN_ROW + 1, "col": index % _IN_ROW + 1}
        for kind in kinds:
            if kind.trials:
                trace = _draw_kind(metrics, kind, across, up, is_first=index == 0)
                figure.add_trace(trace, **place)
        figure.update_xaxes(title=_name_axis(across, "→", "←"), **place)
        figure.update_yaxes(title=_name_axis(up, "→", "←"), **place)
    height = HEIGHT_PX if len(pairs) == 1 else rows * _ROW_PX + 3 * MARGIN_PX
    line = ", connected by a line around what they beat" if len(pairs) == 1 else ""
    return lay_out(_TITLE, _ABOUT.format(line=line), figure, height)


def _draw_kind(
    metrics: Sequence[Metric], kind: _Kind, across: Metric, up: Metric, *, is_first: bool
) -> go.Scatter:
    """Draw the trials of a kind; a line connects a front of two objectives."""
    trials = sorted(kind.trials, key=lambda trial: _value(trial, across))
    is_front = kind.name == "in the front" and len(metrics) == _TWO
    shape = "vh" if across.goal is Goal.MAXIMIZE else "hv"  # the corners are worse in both
    return go.Scatter(
        x=[_value(trial, across) for trial in trials],
        y=[_value(trial, up) for trial in trials],
        mode="lines+markers" if is_front else "markers",
        line={"shape": shape, "color": kind.marker["color"]} if is_front else None,
        marker=kind.marker,
        name=kind.name,
        legendgroup=kind.name,
        showlegend=is_first,
        text=[_describe(metrics, trial) for trial in trials],
        customdata=[trial.number for trial in trials],
        hovertemplate="%{text}<extra></extra>",
    )


def _draw_lines(metrics: Sequence[Metric], kinds: Sequence[_Kind]) -> Plot:
    """Draw a line for each trial over all objectives, those of the front in green."""
    pairs = [(trial, kind) for kind in kinds for trial in kind.trials]
    colours = [kind.marker["color"] for kind in kinds]
    scale = [[place / (len(colours) - 1), colour] for place, colour in enumerate(colours)]
    figure = go.Figure(
        go.Parcoords(
            line={
                "color": [colours.index(kind.marker["color"]) for _, kind in pairs],
                "colorscale": scale,
                "cmin": 0,
                "cmax": len(colours) - 1,
            },
            dimensions=[
                {
                    "label": _name_axis(metric, "↑", "↓"),
                    "values": [_value(trial, metric) for trial, _ in pairs],
                }
                for metric in metrics
            ],
        )
    )
    about = "A line for each trial; those of the front are green, those beyond a limit brown."
    return lay_out(_TITLE, about, figure)


def _draw_growth(view: StudyView) -> Iterator[Plot]:
    steps = front_history(view.study, view.trials)
    if not steps:
        return
    has_volume = len(view.objectives) == _TWO and steps[-1].volume is not None
    values = [step.volume if has_volume else step.size for step in steps]
    numbers = [step.trial for step in steps]
    figure = go.Figure(
        go.Scatter(
            x=[*numbers, max(view.trials[-1].number, numbers[-1])],
            y=[*values, values[-1]],
            mode="lines",
            line={"shape": "hv", "color": "#1b6e3a"},
        )
    )
    name = "hypervolume" if has_volume else "trials in the front"
    figure.update_layout(xaxis_title="trial", yaxis_title=name, yaxis_rangemode="tozero")
    about = (
        "The hypervolume: the share of the rectangle between the worst and the best values that "
        "the front beats."
        if has_volume
        else "The number of trials in the front."
    )
    yield lay_out("Growth of the front", f"{about} The front has {steps[-1].size} trials.", figure)


def _value(trial: TrialRecord, metric: Metric) -> float:
    value = final_value(trial, metric)
    assert value is not None, f"trial {trial.number} has no {metric.metric_id}"  # noqa: S101
    return value


def _name_axis(metric: Metric, more: str, less: str) -> str:
    is_up = metric.goal is Goal.MAXIMIZE
    direction = f"larger is better {more}" if is_up else f"smaller is better {less}"
    return f"{shown(metric.metric_id)} ({direction})"


def _describe(metrics: Sequence[Metric], trial: TrialRecord) -> str:
    """Describe a trial in lines, as plotly reads them."""
    final = trial.final.metrics if trial.final else ()
    order = {metric.metric_id: place for place, metric in enumerate(metrics)}
    values = sorted(final, key=lambda pair: order.get(pair[0], len(order)))
    lines = [f"trial {trial.number}", *(f"{shown(name)} {format_short(v)}" for name, v in values)]
    lines += [f"{shown(name)}={shown(format_short(value))}" for name, value in trial.values]
    return "<br>".join(lines)
