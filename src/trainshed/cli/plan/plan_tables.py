"""Renders the options of a plan as a table, as JSON and as CSV."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from trainshed.cli.terminal import table
from trainshed.model.csv_text import csv_text
from trainshed.model.texts import count_noun
from trainshed.planning.amounts import figure
from trainshed.planning.cluster_facts import matching_forecast
from trainshed.planning.job_plan import JobPlan
from trainshed.planning.links import FAST_GBPS, SLOW_GBPS
from trainshed.planning.plan_words import (
    bounds,
    cost_words,
    head,
    interval,
    is_base,
    lasting_between,
    limited_by,
    point_or_range,
)
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.prediction import Interval, NoPrediction
from trainshed.planning.what_ifs import ClusterOption

HEADERS: Final = ("N", "HOSTS", "MACHINES", "REDUCERS", "SAMPLES/S", "EFF %", "STEP MS", "TIME",
                  "COST", "MEMORY", "LIMITED BY", "NOTE")  # fmt: skip
_MEMORY: Final = "MEMORY"
COLUMNS: Final = (
    "accelerators", "hosts", "machine_type", "accelerator", "reducers", "parameter_servers",
    "batch_per_accelerator", "samples_per_s_low", "samples_per_s", "samples_per_s_high",
    "speedup_low", "speedup", "speedup_high", "efficiency", "step_ms", "time_s_low", "time_s",
    "time_s_high", "accelerator_hours", "cost_low", "cost", "cost_high", "price_hour", "currency",
    "memory_needed", "memory", "limited_by", "notes",
)  # fmt: skip


def table_text(plan: JobPlan) -> str:
    """Return a table with a line for each option."""
    return table(*cells_of(plan))


def cells_of(plan: JobPlan) -> tuple[list[str], list[list[str]]]:
    """Return the headers and the rows of the table; without memory if none is known."""
    rows = [_row(plan, option) for option in plan.options]
    columns = [
        column
        for column, name in enumerate(HEADERS)
        if name != _MEMORY or any(row[column] for row in rows)
    ]
    headers = [HEADERS[column] for column in columns]
    return headers, [[row[column] for column in columns] for row in rows]


def _row(plan: JobPlan, option: ClusterOption) -> list[str]:
    notes, option = "; ".join(plan.notes(option)), option.shown
    cluster, prediction, has_point = option.cluster, option.prediction, not option.ends
    return [
        str(cluster.accelerators),
        str(cluster.hosts),
        _machines(plan, option),
        str(cluster.reducers),
        _rate_words(option) if prediction else bounds(option),
        point_or_range(option, prediction.efficiency.times(100), "{:.0f}".format)
        if prediction
        else "",
        point_or_range(option, prediction.step_s.times(1000), figure)
        if prediction and option.rate_factor < math.inf
        else "",
        lasting_between(option.time_s, has_point=has_point) if option.time_s else "",
        cost_words(option),
        option.what_if.memory.words if option.what_if.memory else "",
        limited_by(option),
        notes,
    ]


def _rate_words(option: ClusterOption) -> str:
    """Return samples/s, or the factor over one accelerator if only ratios are known."""
    prediction = option.prediction
    if prediction is None:
        return ""
    if is_base(option):
        return "one"
    if option.rate_factor == math.inf:
        return f"{interval(prediction.speedup, has_point=not option.ends)} x one"
    return interval(prediction.samples_per_s, has_point=not option.ends)


def _machines(plan: JobPlan, option: ClusterOption) -> str:
    host, servers = option.cluster.host, option.cluster.servers
    words = option.machine_type or f"{host.per_host} x {host.accelerator}"
    accelerators = {other.cluster.host.accelerator for other in plan.options}
    if option.machine_type and len(accelerators) > 1 and not option.what_if.parts:
        words += f" with {host.accelerator}"
    return f"{words} + {count_noun(servers, 'server')}" if servers else words


def as_csv(plan: JobPlan) -> str:
    """Return the plan as CSV, with a line for each option."""
    return csv_text([COLUMNS, *(_csv_row(plan, option) for option in plan.options)])


def _csv_row(plan: JobPlan, option: ClusterOption) -> list[Any]:
    document = _option(plan, option)
    step_s, memory = document["step_s"] or {}, document["memory"] or {}
    cells = {
        **document,
        **dict(_csv_ends(document, "samples_per_s", "speedup", "time_s", "cost")),
        "efficiency": (document["efficiency"] or {}).get("point"),
        "step_ms": 1000 * point if (point := step_s.get("point")) else None,
        "accelerator_hours": (document["accelerator_hours"] or {}).get("point"),
        "memory_needed": memory.get("needed"),
        "memory": memory.get("available") or None,
        "notes": "; ".join(document["notes"]),
    }
    return [_csv_cell(cells[column]) for column in COLUMNS]


def _csv_ends(document: dict[str, Any], *names: str) -> Iterator[tuple[str, float | None]]:
    for name in names:
        for end, column in (("low", f"{name}_low"), ("point", name), ("high", f"{name}_high")):
            yield column, (document[name] or {}).get(end)


def _csv_cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def as_json(
    plan: JobPlan, calibrations: Sequence[Calibration], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the plan as a JSON document."""
    forecast = matching_forecast(plan)
    return {
        "text": head(plan),
        "refused": refusal(plan.refused),
        "work": {
            "samples": plan.work.samples,
            "global_batch": plan.work.global_batch,
            "critical_batch": plan.work.critical_batch or None,
            "text": plan.work.words,
        },
        "calibrations": [provenance(calibration) for calibration in calibrations],
        "notes": list(notes),
        "prices": _prices(plan),
        "own": _index(plan, plan.own),
        "reducers": forecast.numbers if forecast else None,
        "marks": {
            name: _index(plan, getattr(plan.marks, name))
            for name in ("fastest", "cheapest", "knee", "meets")
        },
        "unknown_marks": {
            name: {"slow": _index(plan, slow), "fast": _index(plan, fast)}
            for name, (slow, fast) in plan.marks.unknown.items()
        },
        "options": [_option(plan, option) for option in plan.options],
    }


def refused_json(refused: NoPrediction) -> dict[str, Any]:
    """Return the JSON document of a refused plan."""
    return {"text": refused.message, "refused": refusal(refused), "options": []}


def refusal(refused: NoPrediction | None) -> dict[str, Any] | None:
    """Return the field, the reason and the accepted values as JSON."""
    return _pick(refused, "field", "message", "accepted") if refused else None


def _pick(value: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def provenance(calibration: Calibration) -> dict[str, Any]:
    """Return how a calibration was measured."""
    counts = ("accelerators", "hosts", "steps", "step_s", "noisy")
    return {
        **_pick(calibration.training, "model", "stack", "strategy", "batch_per_accelerator"),
        **_pick(calibration.host, "machine_type", "accelerator"),
        **_pick(calibration, "date", "trainer_digest"),
        "runs": [{"kind": run.kind.value, **_pick(run, *counts)} for run in calibration.runs],
        "residual": calibration.fitted.residual,
    }


def _index(plan: JobPlan, option: ClusterOption | None) -> int | None:
    """Return the index of an option in the plan."""
    indexes = (index for index, candidate in enumerate(plan.options) if candidate is option)
    return next(indexes, None)


def _prices(plan: JobPlan) -> dict[str, Any] | None:
    price = next((option.hour for option in plan.options if option.hour), None)
    if price is None:
        return None
    return {**_pick(price, "currency", "dates", "sources"), "spot": plan.prices.spot}


def _option(plan: JobPlan, option: ClusterOption) -> dict[str, Any]:
    notes, option = list(plan.notes(option)), option.shown
    cluster, prediction = option.cluster, option.prediction
    timed = prediction if option.rate_factor < math.inf else None
    return {
        "accelerators": cluster.accelerators,
        "hosts": cluster.hosts,
        "machine_type": option.machine_type,
        "accelerator": cluster.host.accelerator,
        "reducers": cluster.reducers,
        "parameter_servers": cluster.servers,
        "batch_per_accelerator": timed.batch_per_accelerator if timed else None,
        "samples_per_s": _interval_json(option, timed.samples_per_s if timed else None),
        "speedup": _interval_json(option, prediction.speedup if prediction else None),
        "base_accelerators": prediction.base_accelerators if prediction else None,
        "efficiency": _interval_json(option, prediction.efficiency if prediction else None),
        "step_s": _interval_json(option, timed.step_s if timed else None),
        "parts_s": {term.value: seconds for term, seconds in timed.parts_s} if timed else None,
        "time_s": _interval_json(option, option.time_s),
        "accelerator_hours": _interval_json(option, option.accelerator_hours),
        "cost": _interval_json(option, option.cost),
        "memory": asdict(option.what_if.memory) if option.what_if.memory else None,
        "price_hour": option.hour.amount if option.hour else None,
        "currency": option.hour.currency if option.hour else None,
        "links_gbps": [SLOW_GBPS, FAST_GBPS] if option.ends else None,
        "limited_by": limited_by(option) or None,
        "extrapolated": prediction.extrapolated if prediction else None,
        "warnings": list(prediction.warnings) if prediction else [],
        "refused": refusal(option.answer) if isinstance(option.answer, NoPrediction) else None,
        "bounds": _bounds(option),
        "notes": notes,
    }


def _bounds(option: ClusterOption) -> dict[str, Any] | None:
    """Return the bounds of an option without a prediction: 0, as slow links may be, and linear."""
    if not isinstance(option.answer, NoPrediction):
        return None
    samples_per_s = option.answer.samples_per_s
    return {
        "speedup": [0, option.cluster.accelerators],
        "samples_per_s": list(samples_per_s) if samples_per_s else None,
    }


def _interval_json(option: ClusterOption, value: Interval | None) -> dict[str, Any] | None:
    """Return an interval as JSON; with unknown links it has no point."""
    if value is None:
        return None
    return {**asdict(value), "point": None} if option.ends else asdict(value)
