"""``trainshed plan achieved``: jobs that ran beside what was to be expected of them."""

import argparse
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.failures import print_error
from trainshed.cli.flags import Request
from trainshed.cli.terminal import answer, out_json
from trainshed.client.collections import native_path
from trainshed.client.faults import Json
from trainshed.files.server_files import PUBLIC, write_file
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.model.step_times import STEPS
from trainshed.model.texts import count_noun
from trainshed.planning.job_outcome import JobOutcome, outcome_of, score
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.updating import add_run
from trainshed.planning.stack import other_training
from trainshed.wire.detect import parse
from trainshed.workbench.plan_inputs import NotPlannable, read_calibration

_WORKERS: Final = frozenset({Role.PRIMARY.value, Role.WORKER.value})
EXIT_REFUSED: Final = 3
#: Of a job of which nothing was predicted: why.
_REASON: Final = "reason"
#: How a trainer is heard.
TELLS: Final = "its trainer calls progress(step), or TRAINSHED_STEPS=hooks is in its environment"


def run(request: Request) -> int:
    """Compare, and update the file where that is asked.  Raises UsageFault, Fault."""
    args = request.args
    place = place_of(args)
    if args.calibration is None:
        outcomes = [_read_prediction(place, job) for job in args.job]
    else:
        outcomes = _compare_all(args, place)
    predicted = [outcome for outcome in outcomes if _REASON not in outcome]
    if not predicted:
        return _refuse_all(args, outcomes)
    answer(args.format, outcomes, "\n".join([*map(_line, outcomes), *score(predicted)]))
    return 0


def _line(outcome: Json) -> str:
    sentence = (
        f"no prediction: {outcome[_REASON]}" if _REASON in outcome else f"{outcome['sentence']}."
    )
    return f"{outcome['job']}: {sentence}"


def _refuse_all(args: argparse.Namespace, outcomes: list[Json]) -> int:
    """Nothing was predicted of any of them."""
    if args.format == "json":
        out_json(outcomes)
    for outcome in outcomes:
        print_error(_line(outcome))
    return EXIT_REFUSED


def _read_prediction(place: ServerPlace, job: str) -> Json:
    """What the server had predicted before the job taught it more."""
    outcome = place.server.call("GET", native_path(job, place.project)).get("outcome")
    if outcome is not None:
        return dict(outcome)
    why = "the first job of a trainer on a kind of machine teaches the server, if"
    return {"job": job, _REASON: f"{why} {TELLS}; --calibration FILE compares it with that"}


def _compare_all(args: argparse.Namespace, place: ServerPlace) -> list[Json]:
    """What a calibration says of each of them, which may then learn from all.  UsageFault."""
    try:
        calibration = read_calibration(args.calibration)
    except NotPlannable as refusal:
        raise UsageFault(str(refusal)) from None
    outcomes = {job: _compare_job(args, place, job, calibration) for job in args.job}
    if args.update:
        _learn(args, calibration, outcomes)
    return [
        {"job": job, _REASON: outcome}
        if isinstance(outcome, str)
        else {**outcome.numbers, "sentence": outcome.sentence}
        for job, outcome in outcomes.items()
    ]


def _learn(
    args: argparse.Namespace, calibration: Calibration, outcomes: Mapping[str, JobOutcome | str]
) -> None:
    """Nothing is written if one of them is not of this training.  Raises UsageFault."""
    for job, outcome in outcomes.items():
        if isinstance(outcome, str):
            raise UsageFault(f"{job}: {outcome}")
        calibration = add_run(calibration, outcome.run)
    text = written(calibration)
    try:
        read(text)
    except ValueError as error:  # a trainer may report whatever it likes
        raise UsageFault(f"{args.calibration} stays as it is: {error}") from None
    write_file(args.calibration, text.encode(), PUBLIC)


def _compare_job(
    args: argparse.Namespace, place: ServerPlace, job: str, calibration: Calibration
) -> JobOutcome | str:
    """What it came to; why it cannot be compared.  Raises UsageFault."""
    path = native_path(job, place.project)
    event = reported(place, path)
    if event is None:
        return f"it has reported no steps that could be compared: {TELLS}"
    view = place.server.call("GET", path)
    spec = _spec(place, view)
    if spec and (why := other_training(calibration, spec, event["data"])):
        return f"{args.calibration} is of another training: {why}"
    job_run = _run(args, view, event["data"], calibration)
    outcome = outcome_of(job, calibration, job_run, event["data"].get("goodput"))
    if isinstance(outcome, NoPrediction):
        return f"{outcome.field}: {outcome.message} (accepted: {outcome.accepted})"
    return outcome


def _spec(place: ServerPlace, view: Json) -> JobSpec | None:
    """The job as it was asked for; None where that cannot be read any more."""
    name = view.get("name")
    return parse(place.server.call("GET", f"/v1/{quote(name)}")).spec if name else None


def reported(place: ServerPlace, path: str) -> Json | None:
    """The newest event of its story that says what its steps came to."""
    after, reported = 0, None
    while events := place.server.call("GET", f"{path}/events", query={"after": after})["events"]:
        after = events[-1]["seq"]
        reported = next((event for event in reversed(events) if event["kind"] == STEPS), reported)
    return reported


def _run(
    args: argparse.Namespace, job: Json, data: dict[str, Any], calibration: Calibration
) -> Run:
    """The job as a run; samples are those of one replica.  Raises UsageFault."""
    hosts = sum(replica.get("role") in _WORKERS for replica in job["replicas"]) or 1
    count = args.gpus if args.gpus is not None else hosts * calibration.host.per_host
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
