"""``trainshed plan achieved``: jobs that ran beside what was to be expected of them."""

import argparse
from typing import Any, Final

from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.flags import Request
from trainshed.cli.terminal import answer
from trainshed.client.collections import native_path
from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Role
from trainshed.model.step_times import STEPS
from trainshed.planning.job_outcome import JobOutcome, outcome_of, score
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.calibration_file import written
from trainshed.planning.scaling.prediction import Refused
from trainshed.planning.scaling.updating import updated
from trainshed.service.server_files import PUBLIC, write_file
from trainshed.workbench.plan_inputs import NotPlannable, read_calibration

_WORKERS: Final = frozenset({Role.PRIMARY.value, Role.WORKER.value})
_TELLS: Final = "its trainer calls progress(step), or TRAINSHED_STEPS=hooks is in its environment"


def run(request: Request) -> int:
    """Compare, and update the file where that is asked.  Raises UsageFault, Fault."""
    args = request.args
    place = place_of(args)
    if args.calibration is None:
        return _of_server(args, place)
    try:
        calibration = read_calibration(args.calibration)
    except NotPlannable as refusal:
        raise UsageFault(str(refusal)) from None
    outcomes = [_outcome(args, place, job, calibration) for job in args.job]
    if args.update:
        for each in outcomes:
            calibration = updated(calibration, each.run)
        write_file(args.calibration, written(calibration).encode(), PUBLIC)
    text = "\n".join(
        [
            *(f"{each.job}: {each.sentence}." for each in outcomes),
            *score([each.numbers for each in outcomes]),
        ]
    )
    answer(args, [each.numbers for each in outcomes], text)
    return 0


def _of_server(args: argparse.Namespace, place: ServerPlace) -> int:
    """What the server had predicted before each of the jobs taught it more."""
    found = [_predicted(place, job) for job in args.job]
    text = "\n".join([*(f"{each['job']}: {each['sentence']}." for each in found), *score(found)])
    answer(args, found, text)
    return 0


def _predicted(place: ServerPlace, job: str) -> Json:
    outcome = place.server.call("GET", native_path(job, place.project)).get("outcome")
    if outcome is None:
        raise UsageFault(
            f"{job}: nothing was predicted of it: the first job of a trainer on a kind of machine "
            f"teaches the server, if {_TELLS}; --calibration FILE compares it with that"
        )
    return dict(outcome)


def _outcome(
    args: argparse.Namespace, place: ServerPlace, job: str, calibration: Calibration
) -> JobOutcome:
    path = native_path(job, place.project)
    reported = _reported(place, path)
    if reported is None:
        raise UsageFault(f"{job} has reported no steps that could be compared: {_TELLS}")
    found = _run(args, place.server.call("GET", path), reported["data"], calibration)
    goodput = reported["data"].get("goodput")
    made = outcome_of(job, calibration, found, goodput)
    if isinstance(made, Refused):
        raise UsageFault(f"{job}: {made.field}: {made.message} (accepted: {made.accepted})")
    return made


def _reported(place: ServerPlace, path: str) -> Json | None:
    """The newest event of its story that says what its steps came to."""
    after, reported = 0, None
    while events := place.server.call("GET", f"{path}/events", query={"after": after})["events"]:
        after = events[-1]["seq"]
        reported = next((each for each in reversed(events) if each["kind"] == STEPS), reported)
    return reported


def _run(
    args: argparse.Namespace, job: Json, data: dict[str, Any], calibration: Calibration
) -> Run:
    """The job as a run; samples are those of one replica.  Raises UsageFault."""
    hosts = sum(each.get("role") in _WORKERS for each in job["replicas"]) or 1
    count = args.gpus if args.gpus is not None else hosts * calibration.host.per_host
    if count < hosts:
        raise UsageFault(f"--gpus {count}: the job had {hosts} hosts, each with one at least")
    each = data["samples_per_s"] * data["step_s"] * hosts / count
    return Run(
        kind=RunKind.JOB,
        accelerators=count,
        hosts=hosts,
        batch_per_accelerator=each,
        steps=data["steps"],
        step_s=data["step_s"],
        step_s_p10=data["step_s_p10"],
        step_s_p90=data["step_s_p90"],
        wait_share=data["wait_share"],
        date=(job.get("endTime") or "")[:10],
    )
