"""``trainshed jobs usage`` and ``trainshed jobs scalars``: the figures of a job over time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from trainshed.cli import flag_values, flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.job_names import TRIAL_HELP, find_path
from trainshed.cli.terminal import note, out, out_json, table
from trainshed.client.faults import Json

_USAGE: Final = "usage"
_SUMMARIES: Final = {
    _USAGE: "Shows what the replicas and GPUs of a job used: CPU, memory, disk, processes, and the "
    "use, memory, power and temperature of each GPU. GPU use is the share of time in which a "
    "program ran on the GPU, not how busy the GPU was.",
    "scalars": "Shows the values that a job's program gave to progress() or wrote for TensorBoard, "
    "such as its loss. Event files are read below the job's log directory.",
}
_EXAMPLES: Final = {
    _USAGE: "  {prog} census_1\n  {prog} census_1 --since 1h --format csv",
    "scalars": "  {prog} census_1\n  {prog} census_1 --name loss --name accuracy\n"
    "  {prog} census_1 --format csv",
}
_USAGE_HEADERS: Final = ("ATTEMPT", "OF", "FIGURE", "UNIT", "MIN", "MEAN", "MAX", "LAST", "CURVE")
_SCALAR_HEADERS: Final = ("NAME", "RUN", "ATTEMPT", "STEP", "FIRST", "LAST", "MIN", "MAX", "CURVE")
#: The numbers of a point; a point of usage has no step.
_POINT_COLUMNS: Final = ("step", "time", "min", "mean", "max")
_USAGE_COLUMNS: Final = ("attempt", "task", "gpu", "name", "unit", *_POINT_COLUMNS[1:])
_SCALAR_COLUMNS: Final = ("name", "source", "run", "attempt", *_POINT_COLUMNS)
#: The suffixes of large numbers in tables, their factors, and the numbers from which they are used.
_SUFFIXES: Final = (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e3, 1e4))
_SUFFIX_MAX: Final = 1e12


def parser(prog: str) -> flags.Parser:
    """Return the parser of one action."""
    action = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action],
        example=_EXAMPLES[action].format(prog=prog),
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(action=action)
    parser.add_argument("job", metavar="JOB", help=TRIAL_HELP)
    add = flags.adder(parser)
    if action == _USAGE:
        add("--attempt N", "Only this attempt; default: all", type=flag_values.whole_number(1))
        add(
            "--since TIME",
            "Only since a time, or a duration such as 1h ago",
            type=flag_values.time_since,
        )
    else:
        add(
            "--name NAME",
            "Only the values of this name; repeatable",
            action="append",
            default=[],
        )
    flags.add_client_flags(parser, forms=("text", "json", "csv"))
    return parser


def run(request: flags.Request) -> int:
    """Print the figures, and on stderr what they lack."""
    from trainshed.client.figures import read_scalars, read_usage

    args = request.args
    context = context_of(args)
    path = find_path(context, args.job)
    if args.action == _USAGE:
        since_s = args.since and datetime.fromisoformat(args.since).timestamp()
        document = read_usage(context.server, path, attempt=args.attempt, since_s=since_s)
    else:
        document = read_scalars(context.server, path, args.name)
    _print(args.action, args.format, document)
    return 0


def _print(action: str, form: str, document: Json) -> None:
    if form == "json":
        out_json(document)
        return
    is_usage = action == _USAGE
    if form == "csv":
        from trainshed.model.csv_text import csv_text

        columns = _USAGE_COLUMNS if is_usage else _SCALAR_COLUMNS
        out(csv_text([columns, *_csv_rows(columns, document["series"])]).rstrip("\n"))
    elif document["series"]:
        headers = _USAGE_HEADERS if is_usage else _SCALAR_HEADERS
        make_row = _usage_row if is_usage else _scalar_row
        out(table(headers, map(make_row, document["series"])))
    for sentence in document["missing" if is_usage else "left_out"]:
        note(sentence)
    if not document["series"] and form == "text":
        note(_explain_nothing(action))


def _explain_nothing(action: str) -> str:
    if action == _USAGE:
        return "there are no samples of this job"
    return (
        "the job has no scalars: call trainshed_trainer.progress(step, loss=loss), or write event "
        "files below AIP_TENSORBOARD_LOG_DIR or the job directory"
    )


def _csv_rows(columns: Sequence[str], series: Iterable[Json]) -> Iterator[Iterable[Any]]:
    """Yield the points of all series as rows."""
    names = [name for name in columns if name not in _POINT_COLUMNS]
    for one in series:
        for point in one["points"]:
            yield [*(one[name] for name in names), *point]


def _usage_row(series: Json) -> tuple[Any, ...]:
    from trainshed.cli.jobs.sparkline import draw_sparkline

    points = series["points"]
    return (
        series["attempt"],
        series["task"] or series["gpu"],
        series["name"].removeprefix("gpu_"),
        series["unit"],
        _short(min(point[1] for point in points)),
        _short(sum(point[2] / len(points) for point in points)),
        _short(max(point[3] for point in points)),
        _short(points[-1][2]),
        draw_sparkline([(point[0], point[2]) for point in points]),
    )


def _scalar_row(series: Json) -> tuple[Any, ...]:
    from trainshed.cli.jobs.sparkline import draw_sparkline

    points = series["points"]
    has_steps = all(point[0] is not None for point in points)
    return (
        series["name"],
        series["run"],
        series["attempt"],
        points[-1][0],
        _short(points[0][3]),
        _short(points[-1][3]),
        _short(min(point[2] for point in points)),
        _short(max(point[4] for point in points)),
        draw_sparkline([(point[0 if has_steps else 1], point[3]) for point in points]),
    )


def _short(value: float) -> str:
    """Return a number with at most four digits: ``0.1234``, ``12.5k``, ``3.2G``."""
    for suffix, unit, value_min in _SUFFIXES:
        if value_min <= abs(value) < _SUFFIX_MAX:
            return f"{value / unit:.4g}{suffix}"
    return f"{value:.4g}"
