"""``trainshed plan history``: what a server's jobs measured, and how its predictions held.

Without a JOB it lists the calibrations and the predicted jobs of a project; with JOBs it compares
them with their predictions, by the server or by a calibration file.
"""

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trainshed.cli import flag_values, flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.failures import print_error
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.jobs.list_words import make_arranger
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import note, out, out_json, print_result, table
from trainshed.client.collections import FINAL_STATES, pages, path_of
from trainshed.client.faults import Json, ServerRefusal
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Role
from trainshed.model.step_times import STEPS
from trainshed.model.texts import count_noun

if TYPE_CHECKING:
    from trainshed.model.job import JobSpec
    from trainshed.planning.job_outcome import JobOutcome
    from trainshed.planning.scaling.calibration import Calibration, Run

_WORKERS: Final = frozenset({Role.PRIMARY.value, Role.WORKER.value})
EXIT_REFUSED: Final = 3
#: The JSON key of the reason why a job has no prediction.
_REASON: Final = "reason"
#: The two ways to make a job report its steps.
HOW_TO_REPORT: Final = (
    "its trainer calls progress(step), or TRAINSHED_STEPS=hooks is in its environment"
)
#: The jobs in the table without ``--limit``.
_ROWS: Final = 20
_CALIBRATION_HEADERS: Final = ("CALIBRATION", "JOBS", "NEWEST", "MODEL", "MACHINE", "ACCELERATOR")
_JOB_HEADERS: Final = ("JOB", "HOSTS", "STEPS", "PREDICTED", "TOOK", "INSIDE", "GOODPUT", "COST")

EXAMPLE: Final = """\
  {prog}
  {prog} --filter 'inside=false steps>1000' --limit 5
  {prog} --print 3f2a9c0d1e5b7788 > learned.toml
  {prog} census_1 --calibration calibration.toml --update"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists the calibrations that a server made from the steps of a project's jobs, and "
        "the jobs that it predicted: what they took, and how many were inside their 80 % "
        "intervals. With JOBs it compares only these. Their trainers must have reported steps, by "
        "progress(step) or by hooks.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} [JOB ...] [flags]",
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="*",
        help=HELP,
    )
    add = flags.adder(parser)
    add(
        "--print CALIBRATION",
        "Print one calibration of the list as a file for trainshed plan --calibration",
        dest="key",
    )
    add(
        "--filter TEXT",
        "Jobs of the list; comparisons that must all hold, of job, hosts, accelerators, steps, "
        "tookSeconds, inside, goodput, class, cost; such as: inside=false hosts>1",
        default="",
    )
    add("--sort-by FIELD,...", "Sort the jobs; ~FIELD in descending order", default="")
    add(
        "--limit N",
        f"Show at most N jobs, the newest first; default: {_ROWS}; in JSON all",
        type=flag_values.whole_number(1),
    )
    add = flags.adder(parser.add_argument_group("compare JOBs with a calibration file"))
    add(
        "--calibration FILE",
        "File that trainshed plan calibrate wrote for the trainer and machines of these jobs; "
        "default: the server's own predictions",
        type=Path,
    )
    add(
        "--gpus N",
        "Accelerators of each job; default: those of all its hosts, by the calibration",
        type=int,
    )
    add(
        "--update",
        "Add the jobs to the calibration file; the last job has the largest weight",
        action="store_true",
    )
    flags.add_client_flags(parser)
    parser.check = _check
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if args.calibration and not args.job:
        parser.error("--calibration FILE needs a JOB to compare with it")
    if args.job and (args.filter or args.sort_by or args.limit or args.key):
        parser.error("--filter, --sort-by, --limit and --print are for the list, without a JOB")
    if args.calibration:
        return
    if args.update:
        parser.error("--update needs --calibration FILE; the server updates its own calibrations")
    if args.gpus is not None:
        parser.error("--gpus needs --calibration FILE; the server knows the GPUs of each job")


def run(request: flags.Request) -> int:
    """List the history, or compare JOBs.  Raises UsageFault, Fault."""
    args = request.args
    context = context_of(args)
    if args.key is not None:
        out(_read_calibration(context, args.key)["document"])
        return 0
    if args.job:
        return _compare_jobs(context, args)
    _list_history(
        context, flags.ListFlags(args.filter, args.sort_by, args.limit, None), args.format
    )
    return 0


def _list_history(context: ServerContext, order: flags.ListFlags, form: str) -> None:
    """Print the calibrations, unless jobs are filtered, and the jobs with their score."""
    calibrations = [] if order.filter else _list_calibrations(context, documents=form == "json")
    arrange = make_arranger(order.filter, order.sort_by)
    path = path_of("trainshed", "v1", "projects", context.project, "outcomes")
    jobs = list(arrange(pages(context.server, path, "outcomes")))
    limit = order.limit or (None if form == "json" else _ROWS)
    if not calibrations and not jobs:
        condition = " that matches the filter" if order.filter else ""
        note(
            f"project {context.project} has no predicted job{condition} yet: a server predicts "
            "from the second job of a trainer on, if jobs report their steps; a job does if "
            f"{HOW_TO_REPORT}"
        )
    document = {"calibrations": calibrations, "jobs": list(islice(jobs, limit))}
    print_result(form, document, _list_text(calibrations, jobs, limit))


def _list_text(calibrations: Sequence[Json], jobs: Sequence[Json], limit: int | None) -> str:
    from trainshed.planning.job_outcome import score

    parts = []
    if calibrations:
        rows = [
            (
                row["key"], row["jobs"], date_of(row["updateTime"]), row["model"] or "-",
                row["machineType"], row["accelerator"],
            )
            for row in calibrations
        ]  # fmt: skip
        parts += [table(_CALIBRATION_HEADERS, rows), ""]
    if jobs:
        parts += [table(_JOB_HEADERS, map(_job_row, jobs[:limit])), ""]
        if limit and len(jobs) > limit:
            parts.append(f"{limit} of {len(jobs)} jobs; --limit {len(jobs)} shows all.")
        parts += score(jobs)
    return "\n".join(parts).rstrip("\n")


def _job_row(job: Json) -> tuple[object, ...]:
    from trainshed.planning.amounts import lasting, money
    from trainshed.planning.job_outcome import predicted_words
    from trainshed.planning.scaling.prediction import Interval

    low, point, high = job["predictedSeconds"]
    goodput, cost = job.get("goodput"), job.get("cost")
    return (
        job["job"],
        job["hosts"],
        f"{job['steps']:,}",
        predicted_words(Interval(low=low, point=point, high=high), job["class"]),
        lasting(job["tookSeconds"]),
        "yes" if job["inside"] else "no",
        "" if goodput is None else f"{goodput:.2f}",
        "" if cost is None else money(cost, job["currency"]),
    )


def _list_calibrations(context: ServerContext, *, documents: bool) -> list[Json]:
    """Return the calibrations of a project; the server's list does not contain the documents."""
    rows = context.server.call("GET", _calibration_path(context))["calibrations"]
    return [_read_calibration(context, row["key"]) for row in rows] if documents else list(rows)


def _calibration_path(context: ServerContext, *key: str) -> str:
    return path_of("trainshed", "v1", "projects", context.project, "calibrations", *key)


def _read_calibration(context: ServerContext, key: str) -> Json:
    """Return a calibration with its document.  Raises UsageFault if there is none."""
    try:
        return context.server.call("GET", _calibration_path(context, key))
    except ServerRefusal as refusal:
        if refusal.http_status != HTTPStatus.NOT_FOUND:
            raise
        raise UsageFault(
            f"project {context.project} has no calibration {key}; list them with: "
            f"{context.command('plan history')}"
        ) from None


def _compare_jobs(context: ServerContext, args: argparse.Namespace) -> int:
    """Print each job beside its prediction; with ``--update`` also update the file."""
    from trainshed.planning.job_outcome import score

    if args.calibration is None:
        outcomes = [_read_prediction(context, job) for job in args.job]
    else:
        outcomes = _compare_all(context, args.job, args.calibration, args.gpus, update=args.update)
    document = {"calibrations": [], "jobs": outcomes}
    predicted = [outcome for outcome in outcomes if _REASON not in outcome]
    if not predicted:
        if args.format == "json":
            out_json(document)
        for outcome in outcomes:
            print_error(_line(outcome))
        return EXIT_REFUSED
    print_result(args.format, document, "\n".join([*map(_line, outcomes), *score(predicted)]))
    return 0


def _line(outcome: Json) -> str:
    sentence = (
        f"no prediction: {outcome[_REASON]}" if _REASON in outcome else f"{outcome['sentence']}."
    )
    return f"{outcome['job']}: {sentence}"


def _read_prediction(context: ServerContext, job: str) -> Json:
    """Return the prediction that the server made before it learned from the job."""
    summary = find_job(context, job).job
    if (outcome := summary.get("outcome")) is not None:
        return dict(outcome)
    if summary["state"] not in FINAL_STATES:
        return {"job": job, _REASON: f"not scored yet: the job is {summary['state']}"}
    if summary.get("isUnscored"):
        again = context.command(f"plan history {job}")
        return {"job": job, _REASON: f"not scored yet; in some seconds: {again}"}
    if why := _explain_sharing(_list_nodes(summary, _spec(context, summary))):
        return {"job": job, _REASON: why}
    reason = (
        "the server predicts only after an earlier job of this trainer on this kind of machine "
        f"reported its steps ({HOW_TO_REPORT}); or give --calibration FILE"
    )
    return {"job": job, _REASON: reason}


def _compare_all(
    context: ServerContext, jobs: Sequence[str], file: Path, gpus: int | None, *, update: bool
) -> list[Json]:
    """Compare jobs with a calibration; with ``update`` add them to it.  Raises UsageFault."""
    from trainshed.wire.native_v1 import document, prediction_score
    from trainshed.workbench.plan_inputs import NotPlannable, read_calibration

    try:
        calibration = read_calibration(file)
    except NotPlannable as refusal:
        raise UsageFault(str(refusal)) from None
    outcomes = {job: _compare_job(context, job, calibration, gpus) for job in jobs}
    if update:
        _learn(file, calibration, outcomes)
    return [
        {"job": job, _REASON: outcome}
        if isinstance(outcome, str)
        else document(prediction_score({**outcome.numbers, "sentence": outcome.sentence}))
        for job, outcome in outcomes.items()
    ]


def _learn(
    file: Path, calibration: "Calibration", outcomes: "Mapping[str, JobOutcome | str]"
) -> None:
    """Add all jobs to the file, or none if one of them does not fit.  Raises UsageFault."""
    from trainshed.files.server_files import PUBLIC, write_file
    from trainshed.planning.scaling.calibration_file import read, written
    from trainshed.planning.scaling.updating import add_run

    for job, outcome in outcomes.items():
        if isinstance(outcome, str):
            raise UsageFault(f"{job}: {outcome}")
        calibration = add_run(calibration, outcome.run)
    text = written(calibration)
    try:
        read(text)
    except ValueError as error:  # a trainer may have reported impossible values
        raise UsageFault(f"cannot update {file}, which stays as it is: {error}") from None
    write_file(file, text.encode(), PUBLIC)


def _compare_job(
    context: ServerContext, job: str, calibration: "Calibration", gpus: int | None
) -> "JobOutcome | str":
    """Compare one job, or return the reason why it cannot be compared.  Raises UsageFault."""
    from trainshed.planning.job_outcome import outcome_of
    from trainshed.planning.scaling.prediction import NoPrediction
    from trainshed.planning.stack import other_training

    path, view, _ = find_job(context, job)
    event = read_steps_event(context, path)
    if event is None:
        return f"the job reported no steps that can be compared; a job does if {HOW_TO_REPORT}"
    spec = _spec(context, view)
    if spec and (why := other_training(calibration, spec, event["data"])):
        return f"the calibration was measured with another training: {why}"
    nodes = _list_nodes(view, spec)
    if why := _explain_sharing(nodes):
        return why
    date = (view.get("endTime") or "")[:10]
    job_run = _run(event["data"], calibration, gpus, len(nodes) or 1, date)
    outcome = outcome_of(job, calibration, job_run, _read_goodput(context, path))
    if isinstance(outcome, NoPrediction):
        return f"{outcome.field}: {outcome.message} (accepted: {outcome.accepted})"
    return outcome


def _spec(context: ServerContext, view: Json) -> "JobSpec | None":
    """Return the job with the accelerators of its machines; None if it can no longer be read."""
    from trainshed.admission import equipped
    from trainshed.service.jobs.judging import Rulebook, judge
    from trainshed.service.jobs.refusing import Merged

    if not (name := view.get("name")):
        return None
    try:
        document = context.server.call("GET", f"/v1/{quote(name)}")
    except ServerRefusal as refusal:
        if refusal.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None  # a trial of AI Platform has no document of its own
    rulebook = Rulebook(today=datetime.now(tz=UTC).date())
    question = judge(Merged(content=document), rulebook).question
    return equipped(question) if question else None


def read_steps_event(context: ServerContext, path: str) -> Json | None:
    """Return the newest event of a job with a summary of its steps; None if there is none."""
    last_seq, newest = 0, None
    while events := context.server.call("GET", f"{path}/events", query={"after": last_seq})[
        "events"
    ]:
        last_seq = events[-1]["seq"]
        newest = next((event for event in reversed(events) if event["kind"] == STEPS), newest)
    return newest


def _read_goodput(context: ServerContext, path: str) -> float | None:
    """Return the goodput of a job; None if it is unknown, or from a server without the route."""
    try:
        goodput: float | None = context.server.call("GET", f"{path}/goodput")["goodput"]
    except ServerRefusal as refusal:
        if refusal.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return goodput


def read_replicas(job: Json) -> list[tuple[str, str]]:
    """Return the roles and nodes of a job's replicas; an unknown node is empty."""
    return [(replica.get("role", ""), replica.get("node") or "") for replica in job["replicas"]]


def _list_nodes(job: Json, spec: "JobSpec | None") -> list[str]:
    """Return the nodes of the replicas that train, all workers without a spec; unknown: empty."""
    from trainshed.planning.planned_jobs import trainers_of

    roles = {group.role.value for group in trainers_of(spec)} if spec else _WORKERS
    return [node for role, node in read_replicas(job) if role in roles]


def _explain_sharing(nodes: Sequence[str]) -> str:
    """Return why the exchange of several hosts may have used no network; empty if it did."""
    machines = len(set(nodes)) if all(nodes) else 0
    if machines >= len(nodes) or len(nodes) == 1:
        return ""
    ran_on = count_noun(machines, "machine") if machines else "machines that are not known"
    return (
        f"its {len(nodes)} hosts ran on {ran_on}, so their exchange is not that of separate hosts"
    )


def _run(
    data: dict[str, Any], calibration: "Calibration", gpus: int | None, hosts: int, date: str
) -> "Run":
    """Return the job as a run; its samples are those of one replica.  Raises UsageFault."""
    from trainshed.planning.job_runs import run_of_steps

    count = gpus if gpus is not None else hosts * calibration.host.per_host
    if count < hosts:
        raise UsageFault(
            f"--gpus must be at least {hosts}, one for each host of the job, got {count}"
        )
    return run_of_steps(data, calibration.host, count, hosts, date)
