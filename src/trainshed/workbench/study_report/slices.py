"""Optuna's slices in rows: it puts all of them beside each other, wider than any page."""

from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it has no stubs
from optuna import Study, visualization

from trainshed.workbench.study_report.optuna_trials import Axes

ROW_PX: Final = 300
_IN_ROW: Final = 3
#: Between two plots: beside each other as a share of the width, and above each other in pixels.
_GAP: Final = 0.05
_GAP_PX: Final = 80
#: Above this the marks of an axis would run into each other.
_TICKS_MAX: Final = 8


def slices(study: Study, axes: Axes, name: str) -> go.Figure:
    """A plot for each parameter, three in a row; its ``height`` is set."""
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
    """From the top down; the first of each row says what all of them show."""
    top = 1 - place // _IN_ROW * (ROW_PX + _GAP_PX) / height
    found: dict[str, Any] = {"domain": [max(top - ROW_PX / height, 0.0), top]}
    is_first = place % _IN_ROW == 0
    return {**found, "title": {"text": name}, "showticklabels": True} if is_first else found


def _ticks(axes: Axes, label: str) -> dict[str, Any]:
    """The marks of a parameter whose values are listed: those, and no others between them."""
    values = axes.listed.get(label, ())
    if not 0 < len(values) <= _TICKS_MAX:
        return {}
    texts = [f"{value:.6g}" for value in values]
    return {"tickmode": "array", "tickvals": list(values), "ticktext": texts}
