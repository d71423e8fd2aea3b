"""``trainshed plan achieved``: compares finished jobs with their predictions."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import out_json, print_result
from trainshed.client.collections import native_path
from trainshed.client.faults import Json
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


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Compares finished jobs with the prediction of a calibration; for several jobs it "
        "also counts those inside their intervals. Their trainers must have reported steps, by "
        "progress(step) or by hooks.",
        example=f"  {prog} census_1 --calibration calibration.toml --update",
        usage=f"{prog} JOB ... [flags]",
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="+",
        help="AI Platform job id, Vertex job number, or full name of either",
    )
    add = flags.adder(parser)
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
    if args.calibration:
        return
    if args.update:
        parser.error("--update needs --calibration FILE; the server updates its own calibrations")
    if args.gpus is not None:
        parser.error("--gpus needs --calibration FILE; the server knows the GPUs of each job")


def run(request: flags.Request) -> int:
    """Compare the jobs; with ``--update`` also update the file.  Raises UsageFault, Fault."""
    from trainshed.planning.job_outcome import score

    args = request.args
    context = context_of(args)
    if args.calibration is None:
        outcomes = [_read_prediction(context, job) for job in args.job]
    else:
        outcomes = _compare_all(context, args.job, args.calibration, args.gpus, update=args.update)
    predicted = [outcome for outcome in outcomes if _REASON not in outcome]
    if not predicted:
        if args.format == "json":
            out_json(outcomes)
        for outcome in outcomes:
            print_error(_line(outcome))
        return EXIT_REFUSED
    print_result(args.format, outcomes, "\n".join([*map(_line, outcomes), *score(predicted)]))
    return 0


def _line(outcome: Json) -> str:
    sentence = (
        f"no prediction: {outcome[_REASON]}" if _REASON in outcome else f"{outcome['sentence']}."
    )
    return f"{outcome['job']}: {sentence}"


def _read_prediction(context: ServerContext, job: str) -> Json:
    """Return the prediction that the server made before it learned from the job."""
    outcome = context.server.call("GET", native_path(job, context.project)).get("outcome")
    if outcome is not None:
        return dict(outcome)
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

    path = native_path(job, context.project)
    event = read_steps_event(context, path)
    if event is None:
        return f"the job reported no steps that can be compared; a job does if {HOW_TO_REPORT}"
    view = context.server.call("GET", path)
    spec = _spec(context, view)
    if spec and (why := other_training(calibration, spec, event["data"])):
        return f"the calibration was measured with another training: {why}"
    if why := _explain_sharing(view):
        return why
    job_run = _run(view, event["data"], calibration, gpus)
    outcome = outcome_of(job, calibration, job_run, event["data"].get("goodput"))
    if isinstance(outcome, NoPrediction):
        return f"{outcome.field}: {outcome.message} (accepted: {outcome.accepted})"
    return outcome


def _spec(context: ServerContext, view: Json) -> "JobSpec | None":
    """Return the job as it was submitted; None if it can no longer be read."""
    from trainshed.wire.detect import parse

    name = view.get("name")
    return parse(context.server.call("GET", f"/v1/{quote(name)}")).spec if name else None


def read_steps_event(context: ServerContext, path: str) -> Json | None:
    """Return the newest event of a job with a summary of its steps; None if there is none."""
    last_seq, newest = 0, None
    while events := context.server.call("GET", f"{path}/events", query={"after": last_seq})[
        "events"
    ]:
        last_seq = events[-1]["seq"]
        newest = next((event for event in reversed(events) if event["kind"] == STEPS), newest)
    return newest


def read_replicas(job: Json) -> list[tuple[str, str]]:
    """Return the roles and nodes of a job's replicas; an unknown node is empty."""
    return [(replica.get("role", ""), replica.get("node") or "") for replica in job["replicas"]]


def _explain_sharing(job: Json) -> str:
    """Return why the exchange of several hosts may have used no network; empty if it did."""
    nodes = [node for role, node in read_replicas(job) if role in _WORKERS]
    machines = len(set(nodes)) if all(nodes) else 0
    if machines >= len(nodes) or len(nodes) == 1:
        return ""
    ran_on = count_noun(machines, "machine") if machines else "machines that are not known"
    return (
        f"its {len(nodes)} hosts ran on {ran_on}, so their exchange is not that of separate hosts"
    )


def _run(job: Json, data: dict[str, Any], calibration: "Calibration", gpus: int | None) -> "Run":
    """Return the job as a run; its samples are those of one replica.  Raises UsageFault."""
    from trainshed.planning.scaling.calibration import Run, RunKind

    hosts = sum(replica.get("role") in _WORKERS for replica in job["replicas"]) or 1
    count = gpus if gpus is not None else hosts * calibration.host.per_host
    if count < hosts:
        raise UsageFault(
            f"--gpus must be at least {hosts}, one for each host of the job, got {count}"
        )
    batch = data["samples_per_s"] * data["step_s"] * hosts / count
    return Run(
        kind=RunKind.JOB,
        accelerators=count,
        hosts=hosts,
        machines=hosts,
        batch_per_accelerator=batch,
        steps=data["steps"],
        step_s=data["step_s"],
        step_s_p10=data["step_s_p10"],
        step_s_p90=data["step_s_p90"],
        wait_share=data["wait_share"],
        date=(job.get("endTime") or "")[:10],
    )
