"""``trainshed jobs study``: what a tuning job searches, its best trial, and importances."""

from collections.abc import Iterator, Mapping
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.jobs.study_starts import list_sources
from trainshed.cli.terminal import print_result, table
from trainshed.client.faults import Json
from trainshed.client.following import NativeTrials
from trainshed.model.trials import TrialOrigin, format_short
from trainshed.tuning.fronts import LISTED_MAX, describe_front

#: The counts of trials that are printed if they are not 0, and their words.
_COUNTS: Final = (
    ("running", "running"),
    ("waiting", "waiting"),
    ("paused", "paused"),
    ("succeeded", "succeeded"),
    ("infeasible", "infeasible"),
    ("stoppedEarly", "of these stopped early"),
)

#: The most enqueued trials that are named.
_ENQUEUED_MAX: Final = 20
#: The most trials whose broken limits are printed.
_BREAKS_MAX: Final = 20


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Shows a tuning job: how far it is, its best trial or Pareto front, which trials "
        "were stopped early or break a limit, and how much each parameter decides the metric. "
        "--format json has all trials.",
        example=f"  {prog} digits\n  {prog} digits --curves --format json",
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument("job", metavar="JOB", help=HELP)
    add = flags.adder(parser)
    add("--metric NAME", "Metric of importances and curves; default: the first objective")
    add("--curves", "With the measurements of the newest 1,000 trials", action="store_true")
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the study."""
    args = request.args
    context = context_of(args)
    path = find_job(context, args.job).path
    query = {} if args.metric is None else {"metric": args.metric}
    document = {
        "study": context.server.call("GET", f"{path}/study"),
        "importances": context.server.call("GET", f"{path}/study:importances", query=query),
        "trials": NativeTrials(context.server, f"{path}/trials").read()["trials"],
    }
    if args.curves:
        document["curves"] = context.server.call("GET", f"{path}/trials:curves", query=query)
    print_result(args.format, document, "\n".join(_describe(document)))
    return 0


def _describe(document: Json) -> Iterator[str]:
    study, importances = document["study"], document["importances"]
    trials = {trial["number"]: trial for trial in document["trials"]}
    yield f"{study['displayName']}: {study['state']}"
    yield _describe_counts(study)
    if study["message"]:
        yield study["message"]
    yield from _describe_start(study, trials)
    if study.get("safety"):
        yield study["safety"]
    yield from _describe_leaders(study, trials)
    yield importances["message"]
    rows = [(row["parameter"], f"{row['share']:.1%}") for row in importances["importances"]]
    if rows:
        yield table(("PARAMETER", "IMPORTANCE"), rows)
    for number, trial in trials.items():
        if stop := trial.get("earlyStop"):
            state = "is paused" if trial["state"] == "PAUSED" else "was stopped early"
            yield f"trial {number} {state}. {stop['reason']}"
    yield from _describe_breaks(trials)
    for curve in document.get("curves", {}).get("curves", ()):
        yield f"trial {curve['trial']}: {len(curve['at'])} points, the last {curve['values'][-1]:g}"


def _describe_start(study: Json, trials: Mapping[int, Json]) -> Iterator[str]:
    """Describe what the study had before its search, and its rungs."""
    from trainshed.wire.native_v1 import describe_place

    if priors := study.get("priors"):
        yield f"expected: {priors}"
    if sources := study.get("knownSources"):
        yield f"known results used: {list_sources(sources)}"
    elif count := study.get("knownResults"):
        yield f"known results from elsewhere: {count}"
    enqueued = [
        f"trial {number} ({describe_place(place)})"
        for number, trial in trials.items()
        if (place := trial.get("firstPoint"))
    ]
    if enqueued:
        rest = len(enqueued) - _ENQUEUED_MAX
        more = [f"and {rest} more; --format json has all"] if rest > 0 else []
        yield f"enqueued: {', '.join([*enqueued[:_ENQUEUED_MAX], *more])}"
    for number, trial in trials.items():
        if trial.get("origin") == TrialOrigin.DEFAULTS.value:
            yield f"the default values: trial {number}"
    unit = "second" if study.get("rungsByTime") else "step"
    for number, rung in enumerate(study.get("rungs") or (), 1):
        bar = f", continue from {rung['bar']:g}" if "bar" in rung else ""
        yield f"rung {number} at {unit} {rung['at']:g}: {rung['trials']} trials{bar}"


def _describe_leaders(study: Json, trials: Mapping[int, Json]) -> Iterator[str]:
    """Describe the best trial; with several objectives the front and its trials."""
    size = study.get("frontSize")
    if size:
        yield describe_front(study["leaders"], size)
    for number in study["leaders"][:LISTED_MAX]:
        if number in trials:  # a trial may have ended between the two calls
            word = "best: " if size is None else ""
            yield f"{word}trial {number}: {_pairs(trials[number], 'metrics')}"
            yield f"  with {_pairs(trials[number], 'parameters')}"


def _describe_breaks(trials: Mapping[int, Json]) -> Iterator[str]:
    """Describe the newest trials that break a limit, and count the others."""
    breaks = [
        (number, trial["brokenLimits"])
        for number, trial in trials.items()
        if trial.get("brokenLimits")
    ]
    for number, limits in breaks[-_BREAKS_MAX:]:
        yield f"trial {number} breaks a limit: {', '.join(limit['reason'] for limit in limits)}"
    if len(breaks) > _BREAKS_MAX:
        yield f"and {len(breaks) - _BREAKS_MAX} earlier trials; --format json has all"


def _describe_counts(study: Json) -> str:
    counts = study["counts"]
    parts = [f"{count} {word}" for field, word in _COUNTS if (count := counts.get(field))]
    return ", ".join([f"{counts['made']} of {study['trialCountMax']} trials were made", *parts])


def _pairs(trial: Json, part: str) -> str:
    pairs = trial[part].items()
    return ", ".join(f"{name}={format_short(value)}" for name, value in pairs) or "nothing"
