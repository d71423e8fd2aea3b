"""``trainshed plan achieved``: jobs that ran beside what was to be expected of them."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import answer, out_json
from trainshed.client.collections import native_path
from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Role
from trainshed.model.step_times import STEPS

if TYPE_CHECKING:
    from trainshed.model.job import JobSpec
    from trainshed.planning.job_outcome import JobOutcome
    from trainshed.planning.scaling.calibration import Calibration, Run

_WORKERS: Final = frozenset({Role.PRIMARY.value, Role.WORKER.value})
EXIT_REFUSED: Final = 3
#: Of a job of which nothing was predicted: why.
_REASON: Final = "reason"
#: How a trainer is heard.
TELLS: Final = "its trainer calls progress(step), or TRAINSHED_STEPS=hooks is in its environment"


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Says what a calibration predicted of jobs that are over, and what they came to; "
        "of several also how many their intervals have held. Their trainers reported steps: by "
        "progress(step), or by hooks.",
        example=f"  {prog} census_1 --calibration calibration.toml --update",
        usage=f"{prog} JOB ... [flags]",
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="+",
        help="AI Platform job id, Vertex job number, or full name of either",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        type=Path,
        help="What trainshed plan calibrate wrote for these jobs' trainer and machines; without "
        "it, what the server had predicted",
    )
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=int,
        help="Accelerators of each job; default: all that its hosts have by the calibration",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="Let the calibration learn from the jobs, the last one named counting most",
    )
    flags.add_client_flags(parser)
    parser.check = _check
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    flag = "--update" if args.update else "--gpus" if args.gpus is not None else ""
    if flag and not args.calibration:
        parser.error(f"{flag} needs --calibration FILE: the server's own learns by itself")


def run(request: flags.Request) -> int:
    """Compare, and update the file where that is asked.  Raises UsageFault, Fault."""
    from trainshed.planning.job_outcome import score

    args = request.args
    place = place_of(args)
    if args.calibration is None:
        outcomes = [_read_prediction(place, job) for job in args.job]
    else:
        outcomes = _compare_all(place, args.job, args.calibration, args.gpus, update=args.update)
    predicted = [outcome for outcome in outcomes if _REASON not in outcome]
    if not predicted:
        if args.format == "json":
            out_json(outcomes)
        for outcome in outcomes:
            print_error(_line(outcome))
        return EXIT_REFUSED
    answer(args.format, outcomes, "\n".join([*map(_line, outcomes), *score(predicted)]))
    return 0


def _line(outcome: Json) -> str:
    sentence = (
        f"no prediction: {outcome[_REASON]}" if _REASON in outcome else f"{outcome['sentence']}."
    )
    return f"{outcome['job']}: {sentence}"


def _read_prediction(place: ServerPlace, job: str) -> Json:
    """What the server had predicted before the job taught it more."""
    outcome = place.server.call("GET", native_path(job, place.project)).get("outcome")
    if outcome is not None:
        return dict(outcome)
    why = "the first job of a trainer on a kind of machine teaches the server, if"
    return {"job": job, _REASON: f"{why} {TELLS}; --calibration FILE compares it with that"}


def _compare_all(
    place: ServerPlace, jobs: Sequence[str], file: Path, gpus: int | None, *, update: bool
) -> list[Json]:
    """What a calibration says of each of them, which may then learn from all.  UsageFault."""
    from trainshed.wire.native_v1 import document, prediction_score
    from trainshed.workbench.plan_inputs import NotPlannable, read_calibration

    try:
        calibration = read_calibration(file)
    except NotPlannable as refusal:
        raise UsageFault(str(refusal)) from None
    outcomes = {job: _compare_job(place, job, calibration, gpus) for job in jobs}
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
    """Nothing is written if one of them is not of this training.  Raises UsageFault."""
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
    except ValueError as error:  # a trainer may report whatever it likes
        raise UsageFault(f"{file} stays as it is: {error}") from None
    write_file(file, text.encode(), PUBLIC)


def _compare_job(
    place: ServerPlace, job: str, calibration: "Calibration", gpus: int | None
) -> "JobOutcome | str":
    """What it came to; why it cannot be compared.  Raises UsageFault."""
    from trainshed.planning.job_outcome import outcome_of
    from trainshed.planning.scaling.prediction import NoPrediction
    from trainshed.planning.stack import other_training

    path = native_path(job, place.project)
    event = reported(place, path)
    if event is None:
        return f"it has reported no steps that could be compared: {TELLS}"
    view = place.server.call("GET", path)
    spec = _spec(place, view)
    if spec and (why := other_training(calibration, spec, event["data"])):
        return f"the calibration is of another training: {why}"
    job_run = _run(view, event["data"], calibration, gpus)
    outcome = outcome_of(job, calibration, job_run, event["data"].get("goodput"))
    if isinstance(outcome, NoPrediction):
        return f"{outcome.field}: {outcome.message} (accepted: {outcome.accepted})"
    return outcome


def _spec(place: ServerPlace, view: Json) -> "JobSpec | None":
    """The job as it was asked for; None where that cannot be read any more."""
    from trainshed.wire.detect import parse

    name = view.get("name")
    return parse(place.server.call("GET", f"/v1/{quote(name)}")).spec if name else None


def reported(place: ServerPlace, path: str) -> Json | None:
    """The newest event of its story that says what its steps came to."""
    after, reported = 0, None
    while events := place.server.call("GET", f"{path}/events", query={"after": after})["events"]:
        after = events[-1]["seq"]
        reported = next((event for event in reversed(events) if event["kind"] == STEPS), reported)
    return reported


def _run(job: Json, data: dict[str, Any], calibration: "Calibration", gpus: int | None) -> "Run":
    """The job as a run; samples are those of one replica.  Raises UsageFault."""
    from trainshed.model.texts import count_noun
    from trainshed.planning.scaling.calibration import Run, RunKind

    hosts = sum(replica.get("role") in _WORKERS for replica in job["replicas"]) or 1
    count = gpus if gpus is not None else hosts * calibration.host.per_host
    if count < hosts:
        raise UsageFault(f"--gpus {count}: the job had {count_noun(hosts, 'host')}, each with one")
    batch = data["samples_per_s"] * data["step_s"] * hosts / count
    return Run(
        kind=RunKind.JOB,
        accelerators=count,
        hosts=hosts,
        batch_per_accelerator=batch,
        steps=data["steps"],
        step_s=data["step_s"],
        step_s_p10=data["step_s_p10"],
        step_s_p90=data["step_s_p90"],
        wait_share=data["wait_share"],
        date=(job.get("endTime") or "")[:10],
    )
