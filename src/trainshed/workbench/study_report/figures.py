"""Draws Optuna's plots of a study, each with a sentence that explains it.

A study of no trial, of one trial, or of trials with different parameters has fewer plots, but
drawing it never fails: instead of a plot, a sentence says what the plot needs.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it has no stubs
from optuna import Study, create_study, create_trial, visualization
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from trainshed.model.study import Metric
from trainshed.tuning.importances import IMPORTANCE_TRIALS_MIN
from trainshed.tuning.optuna_studies import Axes, axes_of, optuna_study, shown
from trainshed.workbench.study_report.fronts import front_plots
from trainshed.workbench.study_report.plot import MARGIN_PX, Plot, lay_out
from trainshed.workbench.study_view import StudyView

ROW_PX: Final = 300
_IN_ROW: Final = 3
#: The space between two plots: horizontally as a share of the width, vertically in pixels.
_GAP: Final = 0.05
_GAP_PX: Final = 80
#: With more marks than this the labels of an axis overlap.
_TICKS_MAX: Final = 8


def slices(study: Study, axes: Axes, name: str) -> go.Figure:
    """Draw the metric over each parameter, three plots in a row, and set the figure's height.

    ``name`` is the label of the metric.
    """
    figure = visualization.plot_slice(study, target_name=name)
    layout = figure.to_dict()["layout"]
    count = sum(key.startswith("xaxis") for key in layout)
    rows = -(-count // _IN_ROW)
    height = rows * ROW_PX + (rows - 1) * _GAP_PX
    for place in range(count):
        number = str(place + 1) if place else ""
        across, down = _x_axis(place, min(count, _IN_ROW)), _y_axis(place, height, name)
        ticks = _ticks(axes, layout[f"xaxis{number}"]["title"]["text"])
        figure.update_layout({f"xaxis{number}": {**across, **ticks}, f"yaxis{number}": down})
    return figure.update_layout(width=None, height=height)


def _x_axis(place: int, columns: int) -> dict[str, Any]:
    width = (1 - (columns - 1) * _GAP) / columns
    left = place % _IN_ROW * (width + _GAP)
    return {"domain": [left, min(left + width, 1.0)], "exponentformat": "e"}  # not 100µ


def _y_axis(place: int, height: int, name: str) -> dict[str, Any]:
    """Return a vertical axis, of rows from top to bottom; a row's first plot has the title."""
    top = 1 - place // _IN_ROW * (ROW_PX + _GAP_PX) / height
    axis: dict[str, Any] = {"domain": [max(top - ROW_PX / height, 0.0), top]}
    is_first = place % _IN_ROW == 0
    return {**axis, "title": {"text": name}, "showticklabels": True} if is_first else axis


def _ticks(axes: Axes, label: str) -> dict[str, Any]:
    """Mark exactly the values of a parameter that has only a few; otherwise plotly chooses."""
    values = axes.listed.get(label, ())
    if not 0 < len(values) <= _TICKS_MAX:
        return {}
    texts = [f"{value:.6g}" for value in values]
    return {"tickmode": "array", "tickvals": list(values), "ticktext": texts}


#: The most diagrams of parallel coordinates, without the one for the parameters of all trials.
_BRANCHES_MAX: Final = 4
#: The most learning curves of one plot: a browser draws more of them slowly.
_CURVES_MAX: Final = 100
_BEYOND: Final = "beyond a limit"
#: Optuna's words for trials within and beyond the limits; a trial without a result is infeasible.
_LIMIT_WORDS: Final = {"Feasible": "safe", "Infeasible": _BEYOND}
#: The place of a legend that neither plotly's buttons nor the labels of the axes cover.
_BELOW: Final = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.12, "yanchor": "top"}


def plots(view: StudyView) -> Iterator[Plot]:
    """Draw all plots of a study, in the order of the page."""
    axes, objectives = axes_of(view.study, view.trials), view.objectives
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's remarks on small studies; we make our own
        yield from front_plots(view)
        for metric in objectives:
            yield from _metric_plots(
                optuna_study(view.study, view.trials, axes, [metric], view.title),
                axes,
                metric,
                view,
            )


def _metric_plots(study: Study, axes: Axes, metric: Metric, view: StudyView) -> Iterator[Plot]:
    """Draw the plots of one objective; with several objectives each title has its name."""
    name = shown(metric.metric_id)
    suffix = f" of {metric.metric_id}" if len(view.objectives) > 1 else ""
    goal = f"{metric.metric_id} is to become {'larger' if _is_up(study) else 'smaller'}"
    done = _done(study)
    if not done:
        about = "No trial has finished with a value yet."
        yield Plot(title=f"Plots{suffix}", about=about)
    else:
        if not suffix:
            yield _history(study, name, goal)
        yield from _parallels(study, name, suffix, done)
        yield _importances(study, name, suffix, len(done))
        if any(trial.params for trial in done):
            yield _slices(study, axes, name, suffix)
    if any(trial.intermediate_values for trial in _all(study)):
        yield _curves(study, name, suffix, view.rungs)


def _history(study: Study, name: str, goal: str) -> Plot:
    figure = visualization.plot_optimization_history(study, target_name=name)
    figure.update_traces(name=_BEYOND, showlegend=True, selector={"name": "Infeasible Trial"})
    about = f"The final value of each trial, and the best so far; {goal}."
    return lay_out("Optimisation history", about, figure)


def _parallels(study: Study, name: str, suffix: str, done: Sequence[FrozenTrial]) -> Iterator[Plot]:
    """Draw one diagram of the parameters that all trials have, then one for each larger branch.

    A branch is the set of trials with the same parameters.  Many trials lack a conditional
    parameter, and Optuna would draw its value for them as None.
    """
    title = f"Parallel coordinates{suffix}"
    branches = Counter(frozenset(trial.params) for trial in done)
    common = frozenset.intersection(*branches)
    if common:
        yield _parallel(study, name, common, title, f"A line for each of {len(done)} trials.")
    for labels, count in branches.most_common(_BRANCHES_MAX):
        if labels != common and count > 1:
            names = ", ".join(sorted(labels - common))
            members = [trial for trial in done if labels <= trial.params.keys()]
            about = f"A line for each of the {len(members)} trials that have {names}."
            yield _parallel(
                _select_trials(study, members), name, labels, f"{title} with {names}", about
            )


def _parallel(study: Study, name: str, labels: frozenset[str], title: str, about: str) -> Plot:
    figure = visualization.plot_parallel_coordinate(study, sorted(labels), target_name=name)
    for words, own_words in _LIMIT_WORDS.items():
        figure.update_traces(name=own_words, selector={"name": words})
    figure.update_layout(legend=_BELOW)
    return lay_out(title, f"{about} Point at a line to see its values.", figure)


def _importances(study: Study, name: str, suffix: str, done: int) -> Plot:
    title = f"Parameter importances{suffix}"
    if done < IMPORTANCE_TRIALS_MIN:
        about = f"Importances need {IMPORTANCE_TRIALS_MIN} finished trials; there are {done}."
        return Plot(title=title, about=about)
    from optuna.importance import get_param_importances  # noqa: PLC0415  # scikit-learn: a second

    if not get_param_importances(study):
        return Plot(title=title, about="No trial has a parameter.")
    figure = visualization.plot_param_importances(study, target_name=name)
    about = (
        "How much a parameter decides whether a trial is among the best tenth (PED-ANOVA), of "
        f"{done} finished trials; below 50 it is a rough guess."
    )
    return lay_out(title, about, figure)


def _slices(study: Study, axes: Axes, name: str, suffix: str) -> Plot:
    figure = slices(study, axes, name)
    height = figure.layout.height + 3 * MARGIN_PX
    about = "The value over each parameter; newer trials are darker."
    return lay_out(f"Slices{suffix}", about, figure, height)


def _curves(study: Study, name: str, suffix: str, rungs: Sequence[float]) -> Plot:
    """Draw the learning curves of the newest trials; plotly is slow with many of them.

    ``rungs`` are the steps of successive halving.
    """
    trials = [trial for trial in _all(study) if trial.intermediate_values]
    about = "The values that trials reported while they ran."
    if len(trials) > _CURVES_MAX:
        about += f" Of {len(trials)} trials the newest {_CURVES_MAX} are shown."
        study = _select_trials(study, trials[-_CURVES_MAX:])
    figure = visualization.plot_intermediate_values(study)
    figure.update_layout(yaxis_title=name)
    for number, step in enumerate(rungs, 1):
        figure.add_vline(x=step, line_dash="dash", annotation_text=f"rung {number}")
    if rungs:
        about += " Dashed lines are the rungs of successive halving."
    return lay_out(f"Intermediate values{suffix}", about, figure)


def _select_trials(study: Study, trials: Sequence[FrozenTrial]) -> Study:
    subset = create_study(direction=study.direction, storage=InMemoryStorage())
    by_number = {trial.number: trial for trial in trials}
    for number in range(max(by_number) + 1):
        subset.add_trial(by_number.get(number, create_trial(state=OptunaState.WAITING)))
    return subset


def _done(study: Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(OptunaState.COMPLETE,))


def _all(study: Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False)


def _is_up(study: Study) -> bool:
    return study.direction.name == "MAXIMIZE"
