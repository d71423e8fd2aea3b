"""``trainshed plan calibrate-jobs``: a trainer measured where it will run, by short jobs of it."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.plan.plan_achieved import TELLS, reported
from trainshed.cli.plan.plan_calibrate import check_out, show
from trainshed.cli.terminal import note
from trainshed.client.collections import FINAL_STATES, WAITING_STATES, collection_of, native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.following import Followed
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.texts import count_noun

if TYPE_CHECKING:
    from trainshed.catalog.catalog import Catalog
    from trainshed.model.job import JobSpec
    from trainshed.planning.job_runs import JobRun
    from trainshed.planning.scaling.calibration import Run
    from trainshed.workbench.measured_jobs import MeasuredJob

EXAMPLE = """\
  {prog} job.yaml
  {prog} job.yaml --hosts 1,2 --seconds 90 --out cluster.toml"""


def parser(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan calibrate-jobs``."""
    parser = flags.Parser(
        prog,
        summary="Measures a trainer where it will run, on whatever engine a server has: for each "
        "count of hosts a short job of the file, which is cancelled when it has trained for "
        "--seconds. Hooks or progress() see its steps. Writes a file that trainshed plan reads.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} FILE [flags]",
    )
    parser.add_argument("file", metavar="FILE", help="Job file, either dialect")
    parser.add_argument(
        "--hosts",
        metavar="N,N",
        type=_counts,
        default=(1,),
        help="Hosts of each job; default: 1. Of 2 the plan learns how the stack uses the network",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=flags.above_zero,
        default=60.0,
        help="How long a job may run, its start included; default: 60",
    )
    parser.add_argument(
        "--start-seconds",
        metavar="S",
        type=flags.above_zero,
        default=600.0,
        help="And how long it may wait before it runs; default: 600",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("calibration.toml"), help="File to write"
    )
    flags.add_client_flags(parser, located=True)
    return parser


def _counts(text: str) -> tuple[int, ...]:
    read_count = flags.whole_number(1)
    return tuple(dict.fromkeys(read_count(word.strip()) for word in text.split(",")))


#: A job that is asked to end has as long for its grace and its last words, in seconds.
_END_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedJob:
    """A job to be made, and as the catalog of this machine reads it."""

    hosts: int
    job: "MeasuredJob"
    spec: "JobSpec"
    catalog: "Catalog"


@dataclass(frozen=True, slots=True)
class _Times:
    """How long a job may run, and how long it may wait before."""

    seconds: float
    start_seconds: float


def run(request: flags.Request) -> int:
    """Make the jobs one by one, and write the file.  Raises UsageFault, Fault."""
    from trainshed.planning.scaling.fitting import calibrated

    args = request.args
    check_out(args.out)
    place = place_of(args)
    times = _Times(args.seconds, args.start_seconds)
    planned_jobs = [_plan_job(args.file, hosts, args.seconds) for hosts in args.hosts]
    job_runs = [run for planned in planned_jobs if (run := _measure_job(place, planned, times))]
    if not job_runs:
        raise UsageFault("--hosts: no job ran on as many machines as it has hosts; 1 always does")
    runs = [_convert_run(measured.run) for measured in job_runs]
    calibration = calibrated(job_runs[0].training, job_runs[0].host, runs)
    show(replace(calibration, date=_day()), args.out, args.format)
    return 0


def _plan_job(file: str, hosts: int, seconds: float) -> _PlannedJob:
    """Everything is read before anything is made.  Raises UsageFault, Fault."""
    from trainshed.admission import equipped
    from trainshed.service.jobs.judging import Rulebook, judge
    from trainshed.service.jobs.refusing import Merged
    from trainshed.workbench.measured_jobs import measured_job

    name = f"calibrate_{datetime.now(tz=UTC):%Y%m%d_%H%M%S}_{hosts}"
    limit_s = int(seconds + _END_S) + 1  # for a command that is killed
    job = measured_job(file, hosts, name, limit_s)
    judgement = judge(Merged(content=job.document), Rulebook(today=datetime.now(tz=UTC).date()))
    spec = equipped(judgement.question) if judgement.question else None
    if spec is None or judgement.question is None or judgement.misread:
        raise Fault(judgement.violations)
    if why := _explain_mismatch(spec, judgement.question.catalog, hosts):
        raise UsageFault(f"{file}: {why}")
    return _PlannedJob(hosts=hosts, job=job, spec=spec, catalog=judgement.question.catalog)


def _explain_mismatch(spec: "JobSpec", catalog: "Catalog", hosts: int) -> str:
    """Why steps of a job would not be those of so many hosts of one kind; empty if they are."""
    from trainshed.planning.host_kinds import kind_of
    from trainshed.planning.job_runs import HELPS
    from trainshed.planning.planned_jobs import trainers_of

    groups = trainers_of(spec)
    host_count = sum(group.count for group in groups)
    if len({kind_of(group, catalog) for group in groups}) > 1:
        return "the hosts that train are not alike, and only one kind is measured"
    if host_count != hosts or any(spec.group(role) for role in HELPS):
        return (
            f"{count_noun(host_count, 'host')} of it would train, with what stands beside them, in "
            f"place of {hosts} alone; scaleTier CUSTOM names machine types"
        )
    return ""


def _measure_job(place: ServerPlace, planned: _PlannedJob, times: _Times) -> "JobRun | None":
    """What a job's steps came to; None if its hosts were one machine's.

    Raises UsageFault for one that reported nothing.
    """
    from trainshed.planning.job_runs import job_run

    collection = collection_of(planned.job.group)
    job = place.server.call(
        "POST", collection.parent(place.project, place.region), planned.job.document
    )
    try:
        name = job["name"] if collection.located else job["jobId"]
        path = native_path(name, place.project)
        hosts = count_noun(planned.hosts, "host")
        note(f"{hosts}: {name} trains for {times.seconds:g} s; Ctrl-C ends it")
        _wait_for_training(Followed(place.server, path, note), times)
    finally:
        if not _has_ended(
            place, f"{collection.path(name, place.project, place.region)}:cancel", path
        ):
            note(f"{name} may still run; stop it with: trainshed {collection.group} cancel {name}")
    event = reported(place, path)
    measurement = event and job_run(planned.spec, event["data"], planned.catalog, _day())
    if not measurement:
        raise UsageFault(
            f"{name} reported no steps that could be used in {times.seconds:g} s: {TELLS}; see "
            f"trainshed jobs explain {name}"
        )
    return measurement if _is_spread(place.server.call("GET", path), planned.hosts) else None


def _is_spread(job: Json, hosts: int) -> bool:
    """Whether each host was a machine: what is exchanged inside one says nothing of a network."""
    machines = {replica["node"] for replica in job["replicas"]}
    if len(machines) >= hosts:
        return True
    note(
        f"{count_noun(hosts, 'host')} ran on {count_noun(len(machines), 'machine')}: that run is "
        "left out, for what they exchanged crossed no network"
    )
    return False


def _wait_for_training(followed: Followed, times: _Times) -> None:
    """Until the job has run for long enough, or is over.  Raises UsageFault if it does not run."""
    began, running_since = time.monotonic(), 0.0
    why = ""
    for job in followed.states():
        now = time.monotonic()
        if job["state"] in WAITING_STATES:
            why = _report_wait(job, why)
        elif job["state"] == "RUNNING":
            running_since = running_since or now
        if running_since and now - running_since > times.seconds:
            return
        if not running_since and now - began > times.start_seconds:
            raise UsageFault(
                f"{job['name']} has not run after {times.start_seconds:g} s and is cancelled: "
                f"{why or 'the server gave no reason'} (--start-seconds)"
            )


def _report_wait(job: Json, last_message: str) -> str:
    """Say why it waits where that has changed."""
    from trainshed.cli.jobs.resource_texts import why_it_waits

    waiting = job.get("waiting") or {}
    message = str(waiting.get("message", ""))
    if message and message != last_message and waiting.get("reason") != "NOT_LOOKED_AT":
        for line in why_it_waits(waiting):
            note(line)
    return message or last_message


def _has_ended(place: ServerPlace, cancel: str, path: str) -> bool:
    """Cancel a job and wait until nothing of it runs, over restarts of the server."""
    for _ in _pauses(_END_S):
        with suppress(ServerRefusal, Unreachable):
            if place.server.call("GET", path)["state"] in FINAL_STATES:
                return True
            place.server.call("POST", cancel, {})
    return False


def _pauses(seconds: float) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(0.5)


def _convert_run(run: "Run") -> "Run":
    """A short job is the short run of as many hosts."""
    from trainshed.planning.scaling.calibration import RunKind

    several = RunKind.HOST if run.accelerators > 1 else RunKind.COMPUTE
    return replace(run, kind=RunKind.TWO_HOSTS if run.hosts > 1 else several)


def _day() -> str:
    return f"{datetime.now(tz=UTC):%Y-%m-%d}"
