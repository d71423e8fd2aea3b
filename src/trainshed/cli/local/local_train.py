"""``trainshed ai-platform local train``: gcloud's local train, and whole clusters from a config."""

import argparse
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainshed.cli.flags import Request
from trainshed.cli.job_flags import submit_flags_of
from trainshed.cli.local.run_job import run_job, running_host_of
from trainshed.model.faults import UsageFault
from trainshed.service.starts.programs import Source, working_folder
from trainshed.workbench.local_run import LocalJob
from trainshed.workbench.plain_train import PlainJob, ignored_counts, plain_env, plain_spec, say
from trainshed.workbench.submit_flags import MACHINE_FLAGS


def run(request: Request) -> int:
    """Run a job of AI Platform Training here; gives the job's exit code."""
    args, user_args = request
    flags = submit_flags_of(args)
    remarks = []
    if args.config and args.distributed:
        remarks.append("--distributed adds nothing: the file describes the cluster.")
    host = running_host_of(args, start_port=args.start_port)
    if args.config or MACHINE_FLAGS.intersection(flags):
        job, cluster = cluster_job_of(args, flags, user_args)
        return run_job(args, job, host, cluster=cluster, remarks=remarks)
    if "module-name" not in flags:
        raise UsageFault("--module-name is required, or a --config that names pythonModule")
    plain = PlainJob(
        module=flags["module-name"],
        args=user_args or (),
        distributed=args.distributed,
        flags=flags,
    )
    ignored = [f"{flag} is ignored without --distributed." for flag in ignored_counts(plain)]
    ignored += [f"{flag} says nothing without --config." for flag in _list_unused(args, flags)]
    return run_job(args, _plain_job(args, plain), host, remarks=[*remarks, *ignored])


def _list_unused(args: argparse.Namespace, flags: dict[str, str]) -> list[str]:
    """Flags that describe a checked job, in a run that checks none."""
    unused = [f"--{name}" for name in ("labels", "use-chief-in-tf-config") if name in flags]
    unused += [f"--{name}" for name in ("edition", "overlay", "scope") if getattr(args, name, None)]
    return unused


def cluster_job_of(
    args: argparse.Namespace, flags: dict[str, str], user_args: Sequence[str] | None
) -> tuple[LocalJob, str]:
    """The job of a file and flags, and the table of its cluster.  Raises Fault, UsageFault."""
    # the catalog and the wire are only read when there is something to check
    from trainshed.cli.check.clusters import cluster_table, rulebook_of
    from trainshed.workbench.cluster_train import cluster_job

    accepted = cluster_job(
        args.config, flags, user_args, rulebook_of(args), has_package=bool(args.package_path)
    )
    spec = accepted.spec
    program = spec.groups[0].program
    module = program.module if program else None
    if not module and not (program and program.image_uri):
        raise UsageFault("--module-name is required: the job names neither a module nor an image")
    source = _source(args)
    job = LocalJob(
        spec=spec,
        job_id=getattr(args, "job", None) or spec.job_id or _new_id(),
        source=source,
        folder=working_folder(source, module),
        say=accepted.say,
        advice=accepted.advice,
        entry_point=("python", "-m", module) if module else (),
    )
    return job, cluster_table(accepted.cluster)


def _plain_job(args: argparse.Namespace, plain: PlainJob) -> LocalJob:
    source = _source(args)
    return LocalJob(
        spec=plain_spec(plain),
        job_id=args.job or _new_id(),
        source=source,
        folder=working_folder(source, plain.module),
        say=say,
        env=plain_env(plain),
    )


def _source(args: argparse.Namespace) -> Source:
    return Source(folder=Path.cwd(), package_path=args.package_path)


def _new_id() -> str:
    return f"local_{datetime.now(tz=UTC):%Y%m%d_%H%M%S}_{os.getpid()}"
