"""``trainshed ai-platform local train``: gcloud's local train, also for clusters of a job file."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cli import flags
from trainshed.cli.check.clusters import cluster_table, rulebook_of
from trainshed.cli.job_flags import add_cluster_flags, submit_flags_of
from trainshed.cli.local.local_flags import IDLE_WORDS, add_local_flags
from trainshed.model.faults import UsageFault
from trainshed.service.jobs.submit_flags import MACHINE_FLAGS

if TYPE_CHECKING:
    from trainshed.service.jobs.judging import Rulebook
    from trainshed.workbench.local_run import LocalJob
    from trainshed.workbench.plain_train import PlainJob

#: Flags that Google's guide puts before ``--``; after it they are refused as a mistake.  All
#: other words after ``--`` go to the trainer.
_NEVER_USER_ARGS = frozenset({"job-dir", "module-name", "package-path", "runtime-version"})

#: Flags that only have an effect on a job that is checked.
_CHECKS = ("labels", "use-chief-in-tf-config", "edition", "overlay", "scope")

EXAMPLE = """\
  trainshed ai-platform local train --module-name trainer.task --package-path trainer \\
      --config config.yaml --job-dir gs://my-bucket/out -- --epochs 3
  trainshed ai-platform local train --config config.yaml --module-name trainer.task --network job"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Runs an AI Platform training job on this machine: one process, gcloud's "
        "--distributed cluster, or all replicas of a config.yaml.",
        example=EXAMPLE,
        usage=f"{prog} [JOB] [flags] [-- USER_ARGS ...]",
    )
    parser.own_flags = _NEVER_USER_ARGS
    parser.add_argument("job", metavar="JOB", nargs="?", help="Id of the job")
    add = flags.adder(parser)
    add("--config FILE", "Job file; flags override its fields")
    add("--package-path DIR", "Package of the module", type=Path)
    add(
        "--distributed",
        "Without --config: run 2 workers and 2 parameter servers, or the numbers of --worker-count "
        "and --parameter-server-count",
        action="store_true",
    )
    add("--start-port PORT", "First port of the cluster; default: free ports", type=int)
    add_cluster_flags(parser, "they override the file")
    add_local_flags(parser)
    switches = ("--stream-logs", "--async", "--enable-web-access")
    flags.add_idle(parser, words=("--staging-bucket", *IDLE_WORDS), switches=switches)
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser


def run(request: flags.Request) -> int:
    """Run an AI Platform training job on this machine; return its exit code."""
    from trainshed.cli.local.run_job import local_run_of, run_job, running_host_of
    from trainshed.workbench.plain_train import PlainJob, ignored_counts

    args, user_args = request
    submit_flags = submit_flags_of(args)
    remarks = []
    if args.config and args.distributed:
        remarks.append("--distributed is ignored: the file describes the cluster.")
    host = running_host_of(args, start_port=args.start_port)
    local_run = local_run_of(args, package_path=args.package_path)
    if args.config or MACHINE_FLAGS.intersection(submit_flags):
        rulebook = rulebook_of(args)
        job, cluster = cluster_job_of(
            args.config, submit_flags, user_args, rulebook, args.package_path, job_id=args.job
        )
        return run_job(local_run, job, host, cluster=cluster, remarks=remarks)
    if "module-name" not in submit_flags:
        raise UsageFault("--module-name is required, or a --config with pythonModule")
    plain = PlainJob(
        module=submit_flags["module-name"],
        args=user_args or (),
        distributed=args.distributed,
        flags=submit_flags,
    )
    remarks += [f"{flag} is ignored without --distributed." for flag in ignored_counts(plain)]
    unused = [name for name in _CHECKS if name in submit_flags or getattr(args, name, None)]
    remarks += [f"--{name} is ignored without --config." for name in unused]
    return run_job(local_run, _plain_job(plain, args.package_path, args.job), host, remarks=remarks)


def cluster_job_of(  # noqa: PLR0913 - a file, its overrides, and the rules to check it
    config: str | None,
    submit_flags: Mapping[str, str],
    user_args: Sequence[str] | None,
    rulebook: "Rulebook",
    package_path: Path | None,
    *,
    job_id: str | None = None,
) -> "tuple[LocalJob, str]":
    """Return the job of a file and flags, and its cluster as a table.  Raises Fault, UsageFault."""
    from trainshed.service.starts.programs import Source, working_folder
    from trainshed.workbench.cluster_train import cluster_job
    from trainshed.workbench.local_run import LocalJob

    accepted = cluster_job(
        config, submit_flags, user_args, rulebook, has_package=bool(package_path)
    )
    spec = accepted.spec
    program = spec.groups[0].program
    module = program.module if program else None
    if not module and not (program and program.image_uri):
        raise UsageFault("--module-name is required: the job names neither a module nor an image")
    source = Source(folder=Path.cwd(), package_path=package_path)
    job = LocalJob(
        spec=spec,
        job_id=job_id or spec.job_id or _new_id(),
        source=source,
        folder=working_folder(source, module),
        say=accepted.say,
        advice=accepted.advice,
        entry_point=("python", "-m", module) if module else (),
    )
    return job, cluster_table(accepted.cluster)


def _plain_job(plain: "PlainJob", package_path: Path | None, job_id: str | None) -> "LocalJob":
    from trainshed.service.starts.programs import Source, working_folder
    from trainshed.workbench.local_run import LocalJob
    from trainshed.workbench.plain_train import plain_env, plain_spec, say

    source = Source(folder=Path.cwd(), package_path=package_path)
    return LocalJob(
        spec=plain_spec(plain),
        job_id=job_id or _new_id(),
        source=source,
        folder=working_folder(source, plain.module),
        say=say,
        env=plain_env(plain),
    )


def _new_id() -> str:
    return f"local_{datetime.now(tz=UTC):%Y%m%d_%H%M%S}_{os.getpid()}"
