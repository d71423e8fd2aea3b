"""Draws a plan as a picture, and as one self-contained page without scripts.

matplotlib draws the picture: one plot of the predicted throughput, the measured points and linear
gain, and one plot of cost over time.  The page has the picture as SVG, or without matplotlib only
the table.
"""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from trainshed.files.server_files import PUBLIC, write_file
from trainshed.model.faults import UsageFault
from trainshed.model.texts import install_command
from trainshed.planning.job_plan import JobPlan
from trainshed.planning.links import UNKNOWN_LINKS
from trainshed.planning.marks import comparable
from trainshed.planning.plan_words import remarks, unit_noun
from trainshed.planning.scaling.calibration import Calibration, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.prediction import Interval
from trainshed.planning.what_ifs import ClusterOption
from trainshed.storage.folders import reason

#: The page may show its content; it may not load, run or send anything.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 1200px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p { color: #57606a; margin: .3rem 0; } .first { color: #1b1f24; font-size: 1.05rem; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
th, td { white-space: nowrap; } td:last-child { white-space: normal; min-width: 12rem; }
td { border-top: 1px solid #e6e9ed; } td.n { text-align: right;
  font-variant-numeric: tabular-nums; } tr.own td { background: #e7f6ec; }
"""
_GREY: Final = "#8c959f"
_PALETTE: Final = ("#0969da", "#1a7f37", "#cf222e", "#8250df", "#bf8700")
_MISSING: Final = f"matplotlib is not installed, which draws it: {install_command('plan')}"
#: The number of columns with figures, and the position of the only one without.
_NUMBERS, _MACHINES = 9, 2
_LOG_FROM: Final = 8
_TICKS: Final = tuple(digit * 10.0**power for power in range(-3, 10) for digit in (1, 2, 5))

#: A line of the picture: clusters that differ only in their number of accelerators.
_Line = tuple[HostKind, bool]


def write_picture(path: Path, plan: JobPlan, calibrations: Sequence[Calibration]) -> None:
    """Write the picture.  Raises UsageFault without matplotlib or if writing fails."""
    try:
        content = _draw(plan, calibrations, "png")
    except ImportError:
        raise UsageFault(f"--png: {_MISSING}") from None
    _write("--png", path, content)


def write_page(
    path: Path,
    plan: JobPlan,
    calibrations: Sequence[Calibration],
    words: Sequence[str],
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
) -> None:
    """Write the page.  Raises UsageFault if the file cannot be written."""
    drawing = f"<p>No picture: {escape(_MISSING)}</p>"
    with suppress(ImportError):
        text = _draw(plan, calibrations, "svg").decode()
        drawing = f'<div class="wide">{text[text.index("<svg") :]}</div>'
    page = "\n".join(_page(plan, calibrations, words, drawing, table))
    _write("--html", path, page.encode())


def _write(flag: str, path: Path, content: bytes) -> None:
    try:
        write_file(path, content, PUBLIC)
    except OSError as error:
        raise UsageFault(f"{flag} {path} cannot be written: {reason(error)}") from None


def _draw(plan: JobPlan, calibrations: Sequence[Calibration], form: str) -> bytes:
    from matplotlib import rc_context  # noqa: PLC0415  # heavy, and an extra
    from matplotlib.figure import Figure  # noqa: PLC0415  # the same

    with rc_context({"svg.hashsalt": "trainshed", "font.size": 9.0, "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        left, *right = figure.subplots(1, 1 if _is_relative(plan) else 2, squeeze=False)[0]
        _throughput(left, plan, calibrations)
        for axes in right:
            _spending(axes, plan)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=form, dpi=120, metadata={"Date": None} if form == "svg" else {}
        )
    return buffer.getvalue()


def _throughput(axes: Any, plan: JobPlan, calibrations: Sequence[Calibration]) -> None:
    colours = _colours(plan)
    for line in _lines(plan):
        colour = colours[_line_of(line[0])]
        counts = [option.cluster.accelerators for option in line]
        samples = [_rate(option) for option in line]
        low, high = [estimate.low for estimate in samples], [estimate.high for estimate in samples]
        axes.fill_between(counts, low, high, color=colour, alpha=0.18, linewidth=0)
        with_point = [option for option in line if not option.ends]
        axes.plot(
            [option.cluster.accelerators for option in with_point],
            [_rate(option).point for option in with_point],
            "o-", color=colour, ms=3, label=_name(line),
        )  # fmt: skip
    points = measured_points(plan, calibrations)
    if points:
        n, rate = min(points)
        most = max(option.cluster.accelerators for option in plan.options if option.prediction)
        axes.plot([n, most], [rate, rate * most / n], "--", color=_GREY, label="in proportion")
        axes.plot(*zip(*points, strict=True), "k^", ms=6, label="measured")
    _scale(axes, plan, [n for n, _ in points])
    counted = unit_noun(plan)
    axes.set_xlabel(f"{counted}s")
    unit = f"times one {counted}" if _is_relative(plan) else "samples/s"
    axes.set_ylabel(f"{unit}, with 80 % intervals")
    axes.legend(frameon=False)


def _is_relative(plan: JobPlan) -> bool:
    """Whether only ratios of its options are known."""
    return any(option.rate_factor == math.inf for option in plan.options)


def _rate(option: ClusterOption) -> Interval:
    """Return the samples/s of a predicted option; the speed-up if only ratios are known."""
    prediction = option.shown.prediction
    if prediction is None:
        raise ValueError("the option must have a prediction")
    return prediction.speedup if option.rate_factor == math.inf else prediction.samples_per_s


def measured_points(plan: JobPlan, calibrations: Sequence[Calibration]) -> list[tuple[int, float]]:
    """Return accelerators and samples/s of the runs that a line of the plan goes through.

    If processors train, several processes on one measured host are not several hosts of the job.
    """
    return [
        (run.accelerators, run.rate_of(calibration.training))
        for calibration in calibrations
        for run in timed(calibration.runs)
        if run.kind is not RunKind.PUBLISHED
        if not calibration.host.trains_on_cpus
        or run.accelerators <= run.hosts * plan.job.host.per_host
    ]


def _scale(axes: Any, plan: JobPlan, measured: Sequence[int]) -> None:
    predicted = {option.cluster.accelerators for option in plan.options if option.prediction}
    counts = sorted(predicted | set(measured))
    if counts[-1] >= _LOG_FROM * counts[0]:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    axes.set_xticks(counts, [_tick(count) for count in counts])
    _label_ticks(axes.yaxis)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _tick(value: float, _position: object = None) -> str:
    return f"{value:,.9g}"


def _label_ticks(axis: Any) -> None:
    """Write the numbers of an axis without exponents, at 1, 2 and 5 of each decade if it is log."""
    low, high = axis.get_view_interval()
    if axis.get_scale() == "log":
        axis.set_ticks([tick for tick in _TICKS if low <= tick <= high])
        axis.set_ticks([], minor=True)
    axis.set_major_formatter(_tick)


def _lines(plan: JobPlan) -> Iterator[list[ClusterOption]]:
    """Yield the options of each line; for a count, only the one with the most reducers."""
    by_line: dict[_Line, dict[int, ClusterOption]] = {}
    for option in sorted(plan.options, key=lambda option: option.cluster.reducers):
        if option.prediction:
            by_line.setdefault(_line_of(option), {})[option.cluster.accelerators] = option
    for line in by_line.values():
        yield [line[count] for count in sorted(line)]


def _line_of(option: ClusterOption) -> _Line:
    return option.cluster.host, option.cluster.reducers > 0


def _colours(plan: JobPlan) -> dict[_Line, str]:
    """Return the colour of each line, which is the same in both plots."""
    lines = (_line_of(line[0]) for line in _lines(plan))
    return dict(zip(lines, cycle(_PALETTE), strict=False))


def _name(line: Sequence[ClusterOption]) -> str:
    """Return the words for a line in the legend."""
    first = line[0]
    words = first.machine_type or "predicted"
    if first.cluster.reducers:
        words += " with reducers"
    if any(option.ends for option in line):
        words += f"; shaded: {UNKNOWN_LINKS}"
    return words


def _spending(axes: Any, plan: JobPlan) -> None:
    options = comparable([option for option in plan.options if option.time_s and option.spent])
    colours = _colours(plan)
    unit, name = _unit([option.time_s.point for option in options if option.time_s])
    for option in options:
        draw = _draw_ends if option.ends else _draw_interval
        point = draw(axes, plan, option, colours[_line_of(option)], unit)
        is_reduced = option.cluster.reducers > 0
        axes.annotate(
            "\n".join(
                (f"{option.cluster.accelerators}{' + r' * is_reduced}", *plan.marks.of(option))
            ),
            point,
            xytext=(5, -4 if is_reduced else 4),
            textcoords="offset points",
            va="top" if is_reduced else "bottom",
        )
    axes.set_xlabel(f"{name} {plan.work.words}")
    currency = next(
        (option.hour.currency for option in options if option.cost and option.hour), None
    )
    axes.set_ylabel(currency or "accelerator-hours")
    title = [
        "r: with reducers" * any(option.cluster.reducers for option in options),
        f"lines: {UNKNOWN_LINKS}" * any(option.ends for option in options),
    ]
    axes.set_title("; ".join(filter(None, title)), loc="right", fontsize="small")
    axes.margins(x=0.2, y=0.2)
    axes.set_ylim(bottom=0)
    times = [
        end.time_s.point / unit
        for option in options
        for end in option.ends or (option,)
        if end.time_s
    ]
    if max(times) >= _LOG_FROM * min(times):
        axes.set_xscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        _label_ticks(axis)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_interval(
    axes: Any, plan: JobPlan, option: ClusterOption, colour: str, unit: float
) -> tuple[float, float]:
    """Draw time and cost with their intervals; return the point."""
    time, spent = option.time_s, option.spent
    if time is None or spent is None:
        raise ValueError("the option must have a time and a cost")
    axes.errorbar(
        time.point / unit, spent.point, fmt="o", ms=5, capsize=2,
        xerr=[[(time.point - time.low) / unit], [(time.high - time.point) / unit]],
        yerr=[[spent.point - spent.low], [spent.high - spent.point]],
        color=colour, ecolor=_GREY, elinewidth=0.8,
        markeredgecolor="black" if plan.marks.of(option) else "none",
    )  # fmt: skip
    return time.point / unit, spent.point


def _draw_ends(
    axes: Any, _plan: JobPlan, option: ClusterOption, colour: str, unit: float
) -> tuple[float, float]:
    """Draw a line from the point with slow links to that with fast ones; return the latter."""
    points = [
        (end.time_s.point / unit, end.spent.point)
        for end in option.ends
        if end.time_s and end.spent
    ]
    axes.plot(*zip(*points, strict=True), "o-", color=colour, ms=3, alpha=0.4)
    return points[-1]


def _unit(times: Iterable[float]) -> tuple[float, str]:
    most = max(times)
    return next(
        ((unit, name) for unit, name in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))
         if most >= 2 * unit),
        (1.0, "seconds"),
    )  # fmt: skip


def _page(
    plan: JobPlan,
    calibrations: Sequence[Calibration],
    words: Sequence[str],
    drawing: str,
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
) -> Iterator[str]:
    headers, rows = table
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield f"<title>Plan of a training job</title><style>{STYLE}</style></head><body>"
    yield "<h1>Plan of a training job</h1>"
    yield f'<p class="first">{escape(words[0])}.</p>'
    yield from (f"<p>{escape(sentence)}</p>" for sentence in words[1:])
    yield drawing
    yield '<h2>Clusters</h2><div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{escape(header.capitalize())}</th>" for header in headers)
    yield "</tr></thead><tbody>"
    for option, row in zip(plan.options, rows, strict=True):
        cells = (f"<td{_kind(place)}>{escape(cell)}</td>" for place, cell in enumerate(row))
        own_class = ' class="own"' if option is plan.own else ""
        yield f"<tr{own_class}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    yield from (f"<p>{escape(remark)}</p>" for remark in remarks(plan))
    yield from _provenance(calibrations)
    yield "</body></html>\n"


def _kind(place: int) -> str:
    return ' class="n"' if place < _NUMBERS and place != _MACHINES else ""


def _provenance(calibrations: Sequence[Calibration]) -> Iterator[str]:
    """Yield the trainer, the machine and the runs of each calibration."""
    measured = [calibration for calibration in calibrations if not calibration.is_published]
    yield "<h2>What was measured</h2>" if measured else ""
    for calibration in measured:
        training, host = calibration.training, calibration.host
        facts = (
            *(training.model, training.stack, training.strategy.value, training.precision),
            f"{training.batch_per_accelerator:g} samples an accelerator and step",
            f"{training.gradient_bytes / 1e6:,.1f} MB of gradients",
            f"{host.per_host} x {host.accelerator} on {host.machine_type or 'a machine'}",
            calibration.date,
            f"trainer {calibration.trainer_digest[:12]}" if calibration.trainer_digest else "",
        )
        yield f"<p>{escape('; '.join(filter(None, facts)))}</p>"
        heads = ("Run", "N", "Hosts", "Steps", "Step ms", "10 to 90 %", "Date", "")
        yield f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead><tbody>"
        for run in calibration.runs:
            cells = (run.kind.value, run.accelerators, run.hosts, run.steps or "",
                     f"{1000 * run.step_s:.4g}" if run.step_s else "",
                     f"{1000 * run.step_s_p10:.4g} to {1000 * run.step_s_p90:.4g}"
                     if run.step_s_p90 else "",
                     run.date, "noisy" if run.noisy else "")  # fmt: skip
            yield f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
        yield "</tbody></table>"
