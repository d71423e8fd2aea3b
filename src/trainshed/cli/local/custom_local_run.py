"""``trainshed ai custom-jobs local-run``: gcloud's local-run, and all worker pools."""

import argparse
import os
from datetime import UTC, datetime

from trainshed.cli.check.clusters import cluster_table, rulebook_of
from trainshed.cli.flags import Request
from trainshed.cli.local.local_options import WORDS
from trainshed.cli.local.run_job import run_job, running_host_of
from trainshed.engines.local.devices.find import devices
from trainshed.model.faults import UsageFault
from trainshed.planning.reduction_forecast import advice_here
from trainshed.workbench.custom_run import CustomFlags, CustomRun, custom_run
from trainshed.workbench.local_run import LocalJob


def run(request: Request) -> int:
    """Run a Vertex AI custom job here; gives the job's exit code."""
    args, user_args = request
    custom_flags = CustomFlags(
        words={name: getattr(args, f"word:{name}") for name, _, _ in WORDS},
        pool_specs=args.worker_pool_spec,
        user_args=user_args,
    )
    local_run = custom_run(args.config, custom_flags, rulebook_of(args))
    cluster = cluster_table(local_run.accepted.cluster) if local_run.judged else ""
    return run_job(args, _job(args, local_run), running_host_of(args), cluster=cluster)


def _job(args: argparse.Namespace, local_run: CustomRun) -> LocalJob:
    spec = local_run.accepted.spec
    source = local_run.program.source()
    return LocalJob(
        spec=spec,
        job_id=spec.job_id or f"{datetime.now(tz=UTC):%Y%m%d%H%M%S}{os.getpid():07d}",
        source=source,
        folder=source.folder,
        say=local_run.accepted.say,
        advice=(*local_run.accepted.advice, *advice_here(spec, local_run.accepted.reduction)),
        is_local_program=bool(local_run.program.command),
        any_gpu_count=_gpu_count(args, local_run),
    )


def _gpu_count(args: argparse.Namespace, local_run: CustomRun) -> int:
    if not args.gpu or local_run.judged:
        return 0
    count = len(devices())
    if not count:
        raise UsageFault("--gpu: this machine has no NVIDIA GPU; leave the flag out")
    return count
