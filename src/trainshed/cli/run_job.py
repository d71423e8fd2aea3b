"""Runs a job and tells how it went; shared by both local runs."""

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainshed.cli.endings import ending_json, print_ending
from trainshed.cli.plans import plan_json, print_plan
from trainshed.cli.sink import TerminalSink
from trainshed.cli.terminal import out, out_json
from trainshed.model.reduction_report import ReductionReport
from trainshed.service.local_run import Host, LocalJob, prepare, start
from trainshed.workbench.results import metrics_of

if TYPE_CHECKING:
    from trainshed.planning.achieved import Achieved


def run_job(
    args: argparse.Namespace,
    job: LocalJob,
    host: Host,
    *,
    cluster: str = "",
    remarks: Iterable[str] = (),
) -> int:
    """Plan the job; print the plan or run it.  Gives the job's exit code.

    ``cluster`` is the table of the expanded cluster, for people; empty where no machine was named.

    ``remarks`` are said first; the engine says the notes of the plan.
    """
    as_json = args.format == "json"
    prepared = prepare(job, host)
    if cluster and not as_json:
        out(f"{cluster}\n")
    if args.dry_run:
        if as_json:
            out_json(plan_json(prepared.plan))
        else:
            print_plan(prepared.plan)
        return 0
    sink = TerminalSink(prepared.plan.replicas, colour=args.color, to_stderr=as_json)
    for note in remarks:
        sink.note(note)
    began = time.time()
    outcome, report = start(prepared, host, sink)
    reduction = _achieved(report) if report else None
    metrics = metrics_of(prepared.output, since=began)
    if as_json:
        out_json(ending_json(prepared.plan, outcome, metrics, prepared.output, reduction))
    else:
        print_ending(outcome, metrics, prepared.output, reduction)
    return outcome.exit_code


def _achieved(report: ReductionReport) -> "Achieved":
    from trainshed.planning.achieved import achieved  # noqa: PLC0415  # few jobs have reducers

    return achieved(report)
