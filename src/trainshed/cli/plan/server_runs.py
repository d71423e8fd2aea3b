"""Measures a trainer by short jobs on a server (``trainshed plan calibrate --on-server``)."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from trainshed.admission import equipped
from trainshed.catalog.catalog import Catalog
from trainshed.cli.connecting import ServerContext
from trainshed.cli.jobs.resource_texts import wait_lines
from trainshed.cli.plan.plan_history import HOW_TO_REPORT, read_replicas, read_steps_event
from trainshed.cli.signals import exit_on_sigterm
from trainshed.cli.terminal import note
from trainshed.client.collections import FINAL_STATES, WAITING_STATES, collection_of, native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.following import FollowedJob
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.job import JobSpec
from trainshed.model.texts import count_noun
from trainshed.planning.host_kinds import kind_of
from trainshed.planning.job_runs import HELPS, JobRun, count_nodes, job_run
from trainshed.planning.planned_jobs import trainers_of
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.service.jobs.judging import Rulebook, judge
from trainshed.service.jobs.refusing import Merged
from trainshed.workbench.calibrate_request import CalibrateRequest
from trainshed.workbench.measured_jobs import MeasuredJob, measured_job

#: The default limits in seconds: of a job's running time, and of its wait before.
_RUN_S: Final = 60.0
_WAIT_S: Final = 600.0
#: Seconds that a cancelled job has for its notice and its last log lines.
_END_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedJob:
    """A job to submit, and its spec by the catalog of this machine."""

    hosts: int
    job: MeasuredJob
    spec: JobSpec
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class _Times:
    """The longest times in seconds that a job may run, and may wait before it runs."""

    run_s: float
    wait_s: float


def calibrate_on_server(
    request: CalibrateRequest, context: ServerContext, rulebook: Rulebook
) -> Calibration:
    """Run the jobs one by one, and fit a calibration to them.  Raises UsageFault, Fault."""
    times = _Times(request.seconds or _RUN_S, request.start_seconds or _WAIT_S)
    planned_jobs = [
        _plan_job(request.file or "", hosts, times.run_s, rulebook) for hosts in request.hosts
    ]
    job_runs = [run for planned in planned_jobs if (run := _measure_job(context, planned, times))]
    if not job_runs:
        raise UsageFault(
            "no job ran on as many machines as it has hosts; measure one host with --hosts 1"
        )
    runs = [*(_convert_run(measured.run) for measured in job_runs), *request.link_runs()]
    training, host = request.state(job_runs[0].training), job_runs[0].host
    if request.network_gbps:
        host = replace(host, network_gbps=request.network_gbps, network_assumed=False)
    calibration = calibrated(training, host, runs)
    return replace(calibration, date=_today())


def _plan_job(file: str, hosts: int, seconds: float, rulebook: Rulebook) -> _PlannedJob:
    """Check a job before any job is submitted.  Raises UsageFault, Fault."""
    name = f"calibrate_{datetime.now(tz=UTC):%Y%m%d_%H%M%S}_{hosts}"
    limit_s = int(seconds + _END_S) + 1  # ends the job if this command is killed
    job = measured_job(file, hosts, name, limit_s)
    judgement = judge(Merged(content=job.document), rulebook)
    spec = equipped(judgement.question) if judgement.question else None
    if spec is None or judgement.question is None or judgement.misread:
        raise Fault(judgement.violations)
    if why := _explain_mismatch(spec, judgement.question.catalog, hosts):
        raise UsageFault(f"{file}: {why}")
    return _PlannedJob(hosts=hosts, job=job, spec=spec, catalog=judgement.question.catalog)


def _explain_mismatch(spec: JobSpec, catalog: Catalog, hosts: int) -> str:
    """Return why a job would not train on so many hosts of one kind; empty if it would."""
    groups = trainers_of(spec)
    host_count = sum(group.count for group in groups)
    if len({kind_of(group, catalog) for group in groups}) > 1:
        return "the hosts that train must be of one kind, got several kinds"
    if host_count != hosts or any(spec.group(role) for role in HELPS):
        return (
            f"the job must train on {count_noun(hosts, 'host')} without reducers, parameter "
            f"servers or evaluators, got {count_noun(host_count, 'host')}; scaleTier CUSTOM sets "
            "machine types"
        )
    return ""


def _measure_job(context: ServerContext, planned: _PlannedJob, times: _Times) -> JobRun | None:
    """Run one job and return its steps; None if several of its hosts ran on one machine.

    Raises UsageFault if the job failed or reported no steps; KeyboardInterrupt and SystemExit if
    a signal ends the command: the job is cancelled before.
    """
    collection = collection_of(planned.job.group)
    with exit_on_sigterm():
        job = context.server.call(
            "POST", collection.parent(context.project, context.region), planned.job.document
        )
        try:
            name = job["name"] if collection.located else job["jobId"]
            path = native_path(name, context.project)
            hosts = count_noun(planned.hosts, "host")
            note(f"{hosts}: {name} trains for {times.run_s:g} s; Ctrl-C and SIGTERM cancel it")
            _wait_for_training(FollowedJob(context.server, path, note), times)
        finally:
            order = f"{collection.path(name, context.project, context.region)}:cancel"
            if not _cancel(context, order, path):
                command = f"trainshed {collection.group} cancel {name}"
                note(f"{name} may still run; cancel it with: {command}")
    ended = context.server.call("GET", path)
    if ended["state"] == "FAILED":
        raise UsageFault(
            f"{name} failed: {ended.get('error') or 'without a message'}; see: trainshed jobs "
            f"explain {name}"
        )
    event = read_steps_event(context, path)
    replicas = read_replicas(ended)
    nodes = count_nodes(planned.spec, replicas)
    if nodes < planned.hosts:
        note(
            f"{hosts} ran on {count_noun(nodes, 'machine')}: the run is left out, because its "
            "exchange did not use the network; measure the link with iperf3 -c HOST between two "
            "machines, and give the result to trainshed plan as --stream-gbps"
        )
        return None
    measurement = event and job_run(planned.spec, event["data"], planned.catalog, _today(), nodes)
    if not measurement:
        raise UsageFault(
            f"{name} reported no usable steps in {times.run_s:g} s; a job does if {HOW_TO_REPORT}; "
            f"see: trainshed jobs explain {name}"
        )
    return measurement


def _wait_for_training(followed: FollowedJob, times: _Times) -> None:
    """Wait until the job has run long enough or ended.  Raises UsageFault if it never starts."""
    began, running_since = time.monotonic(), 0.0
    why = ""
    for job in followed.states():
        now = time.monotonic()
        if job["state"] in WAITING_STATES:
            why = _report_wait(job, why)
        elif job["state"] == "RUNNING":
            running_since = running_since or now
        if running_since and now - running_since > times.run_s:
            return
        if not running_since and now - began > times.wait_s:
            raise UsageFault(
                f"{job['name']} did not start within {times.wait_s:g} s (--start-seconds) "
                f"and is cancelled: {why or 'the server gave no reason'}"
            )


def _report_wait(job: Json, last_message: str) -> str:
    """Print why a job waits, if the reason has changed; return the reason."""
    waiting = job.get("waiting") or {}
    message = str(waiting.get("message", ""))
    if message and message != last_message and waiting.get("reason") != "NOT_LOOKED_AT":
        for line in wait_lines(waiting):
            note(line)
    return message or last_message


def _cancel(context: ServerContext, cancel_path: str, path: str) -> bool:
    """Cancel a job, also while the server restarts; return whether it ends within ``_END_S``."""
    for _ in _pauses(_END_S):
        with suppress(ServerRefusal, Unreachable):
            if context.server.call("GET", path)["state"] in FINAL_STATES:
                return True
            context.server.call("POST", cancel_path, {})
    return False


def _pauses(seconds: float) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(0.5)


def _convert_run(run: Run) -> Run:
    """Return the run of a short job as a short run of the same count of hosts."""
    one_host = RunKind.HOST if run.accelerators > 1 else RunKind.COMPUTE
    return replace(run, kind=RunKind.TWO_HOSTS if run.hosts > 1 else one_host)


def _today() -> str:
    return f"{datetime.now(tz=UTC):%Y-%m-%d}"
