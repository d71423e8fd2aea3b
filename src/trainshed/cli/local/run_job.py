"""Plans a job on this machine, runs it and reports how it ended; shared by both local runs."""

import argparse
import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cli.connecting import PROJECT
from trainshed.cli.flags import idle_flags, to_dataclass
from trainshed.cli.local.endings import ending_json, print_ending
from trainshed.cli.local.local_gateway import with_gateway
from trainshed.cli.local.sink import TerminalSink
from trainshed.cli.terminal import out, out_json, table
from trainshed.engines.network.kinds import HOST, JOB
from trainshed.model import trainer_contract
from trainshed.model.codec import encode
from trainshed.model.gateway import OFF
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.reduction_report import ReductionReport
from trainshed.model.resources import FleetPolicy
from trainshed.service.starts.programs import interpreter
from trainshed.storage.buckets import GsPaths, buckets_of, cache_dir, data_dir
from trainshed.workbench.local_python import PythonChoice, check_python, choose_python
from trainshed.workbench.local_run import Host, LocalJob, Prepared, prepare, runtime_of, start
from trainshed.workbench.results import metrics_of

if TYPE_CHECKING:
    from trainshed.planning.achieved import Achieved


def host_of(args: argparse.Namespace) -> Host:
    """Return this machine, as the command line and the environment describe it."""
    return Host(
        python=interpreter(args.python, os.environ),
        buckets=buckets_of(data_dir(args.data_dir, os.environ)),
        cache_dir=cache_dir(os.environ),
        gs_paths=GsPaths(args.gs_paths),
        project=args.project or PROJECT,
    )


def host_of_job(args: argparse.Namespace, job: LocalJob) -> Host:
    """Return this machine, with the interpreter that a local run of the job would use."""
    choice = choose_python(job.spec, args.python, args.data_dir, os.environ)
    return _set_python(host_of(args), choice)


def _set_python(host: Host, choice: PythonChoice) -> Host:
    return replace(host, python=choice.python, python_note=choice.note)


def running_host_of(args: argparse.Namespace, *, start_port: int | None = None) -> Host:
    """Return this machine, with containers, limits and network for jobs.  Raises UsageFault."""
    return replace(
        host_of(args),
        start_port=start_port,
        runtime=runtime_of(args.container_runtime, args.container_user),
        policy=FleetPolicy(args.fleet_policy),
        overlays=tuple(map(Path, args.overlay)),
        has_network=args.network == JOB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """The flags that say how a job runs on this machine."""

    python: str | None
    data_dir: str | None
    gateway: str
    calibration: Path | None
    """The calibration file for remarks on the job's plan; None: no remarks."""
    package_path: Path | None
    dry_run: bool
    format: str
    color: str
    ignored: tuple[str, ...]
    """The given flags that have no effect on this machine."""

    @property
    def as_json(self) -> bool:
        """Whether to print results as JSON."""
        return self.format == "json"


def local_run_of(args: argparse.Namespace, *, package_path: Path | None = None) -> LocalRun:
    """Return the flags of a local run."""
    vpc = () if args.network in {None, HOST, JOB} else ("--network",)
    return to_dataclass(
        LocalRun,
        args,
        gateway=OFF if args.dry_run else args.gateway,
        calibration=None if args.no_plan else args.calibration,
        package_path=package_path,
        ignored=(*idle_flags(args), *vpc),
    )


def run_job(
    local_run: LocalRun,
    job: LocalJob,
    host: Host,
    *,
    cluster: str = "",
    remarks: Iterable[str] = (),
) -> int:
    """Plan the job; print the plan or run it.  Return the job's exit code.

    ``cluster`` is a table of the job's machines; empty if the job names none.  Ignored flags and
    ``remarks`` are printed first; the engine prints the notes of the plan.
    """
    choice = choose_python(job.spec, local_run.python, local_run.data_dir, os.environ)
    host = _set_python(host, choice)
    with with_gateway(local_run.gateway, job, host) as reachable_host:
        plan_notes = _plan_remarks(local_run, job)
        prepared = prepare(job, reachable_host)
        if cluster and not local_run.as_json:
            out(f"{cluster}\n")
        if local_run.dry_run:
            plan = replace(prepared.plan, notes=(*prepared.plan.notes, *plan_notes))
            _print_plan(plan, choice, as_json=local_run.as_json)
            return 0
        notes = [f"{flag} has no effect on this machine." for flag in local_run.ignored]
        sink = _open_sink(local_run, prepared.plan, choice)
        for text in (*notes, *remarks, *plan_notes):
            sink.note(text)
        return _run(prepared, reachable_host, sink, as_json=local_run.as_json)


def _open_sink(local_run: LocalRun, plan: LaunchPlan, choice: PythonChoice) -> TerminalSink:
    sink = TerminalSink(plan.replicas, colour=local_run.color, to_stderr=local_run.as_json)
    if not all(replica.container for replica in plan.replicas):
        check_python(choice, os.environ)
        sink.note(choice.sentence)
    return sink


def _run(prepared: Prepared, host: Host, sink: TerminalSink, *, as_json: bool) -> int:
    began = time.time()
    outcome, report, _ = start(prepared, host, sink)
    reduction = _evaluate_reduction(report) if report else None
    metrics = metrics_of(prepared.output, since=began)
    if as_json:
        out_json(ending_json(prepared.plan, outcome, metrics, prepared.output, reduction))
    else:
        print_ending(outcome, metrics, prepared.output, reduction)
    return outcome.exit_code


def _plan_remarks(local_run: LocalRun, job: LocalJob) -> tuple[str, ...]:
    if local_run.calibration is None:
        return ()
    from trainshed.workbench.plan_remarks import plan_remarks

    return tuple(plan_remarks(local_run.calibration, local_run.package_path, job.spec))


def _evaluate_reduction(report: ReductionReport) -> "Achieved":
    from trainshed.planning.achieved import achieved

    return achieved(report)


def _print_plan(plan: LaunchPlan, choice: PythonChoice, *, as_json: bool) -> None:
    if as_json:
        out_json(encode(plan))
        return
    rows = [
        (r.task_name, r.gpu_count, _describe_cluster(r), shlex.join(r.argv)) for r in plan.replicas
    ]
    out(table(("REPLICA", "GPUS", "CLUSTER", "COMMAND"), rows))
    out(f"\nworking folder: {plan.cwd}")
    out(f"interpreter:    {plan.environment.python} ({choice.rule})")
    for name in (*plan.environment.packages, *plan.environment.requirements):
        out(f"installs:       {name}")
    for note in plan.notes:
        out(f"note:           {note}")
    for warning in plan.warnings:
        out(f"warning:        {warning}")


def _describe_cluster(replica: ReplicaPlan) -> str:
    """Return the names of the variables that describe the cluster to a replica."""
    names = [name for name in ("TF_CONFIG", "CLUSTER_SPEC") if name in replica.env]
    if "RANK" in replica.env:
        names.append(f"RANK {replica.env['RANK']} of {replica.env['WORLD_SIZE']}")
    if trainer_contract.REDUCERS in replica.env:
        names.append("the reducers")
    return ", ".join(names)
