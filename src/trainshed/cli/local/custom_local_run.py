"""``trainshed ai custom-jobs local-run``: gcloud's local-run, also for all worker pools."""

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trainshed.cli import flags
from trainshed.cli.check.clusters import cluster_table, rulebook_of
from trainshed.cli.job_flags import add_pool_flags, words_of
from trainshed.cli.local.local_flags import IDLE_WORDS, add_local_flags
from trainshed.model.faults import UsageFault

if TYPE_CHECKING:
    from trainshed.workbench.custom_run import CustomRun
    from trainshed.workbench.local_run import LocalJob

#: Flags of the service that no trainer defines.
_NEVER_USER_ARGS = ("worker-pool-spec", "executor-image-uri", "local-package-path")

#: Flags with one value that do not belong to the pools.
_WORDS = (
    (
        "executor-image-uri",
        "URI",
        "Image that Google would run the code in; a local run does not use it",
    ),
    ("local-package-path", "DIR", "Folder of the code; default: the current one"),
    ("script", "FILE", "Python file or shell script to run, relative to the folder"),
    ("python-module", "MODULE", "Module to run, relative to the folder"),
    ("requirements", "REQ,...", "Python dependencies to install"),
    ("extra-packages", "FILE,...", "Python archives to install, relative to the folder"),
    ("region", "REGION", "Region whose machines are checked"),
    (
        "base-output-dir",
        "DIR",
        "Parent of the folders of AIP_MODEL_DIR, AIP_CHECKPOINT_DIR and AIP_TENSORBOARD_LOG_DIR",
    ),
)

_IDLE = (
    "--extra-dirs",
    "--output-image-uri",
    "--service-account-key-file",
    "--labels",
    "--docker-run-options",
    "--persistent-resource-id",
    *IDLE_WORDS,
)

EXAMPLE = """\
  trainshed ai custom-jobs local-run --script task.py --base-output-dir out -- --epochs 3
  trainshed ai custom-jobs local-run --config job.yaml --python-module trainer.task
  trainshed ai custom-jobs local-run --config job.yaml --python-module trainer.task --network job
  trainshed ai custom-jobs local-run --python-module trainer.task \\
      --worker-pool-spec machine-type=n1-standard-4,container-image-uri=img \\
      --worker-pool-spec machine-type=n1-standard-4,replica-count=3,container-image-uri=img"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Runs a Vertex AI custom job on this machine: one program, or all replicas of a "
        "job's worker pools.",
        example=EXAMPLE,
        usage=f"{prog} [flags] [-- ARGS ...]",
    )
    parser.own_flags = _NEVER_USER_ARGS
    add_pool_flags(parser, _WORDS)
    add = flags.adder(parser)
    add("--gpu", "Let the program use all GPUs of this machine", action="store_true")
    add_local_flags(parser)
    switches = ("--enable-web-access", "--enable-dashboard-access")
    flags.add_idle(parser, words=_IDLE, switches=switches)
    parser.add_argument_group("-- ARGS", "Everything after a bare -- goes to the program.")
    return parser


def run(request: flags.Request) -> int:
    """Run a Vertex AI custom job on this machine; return its exit code."""
    from trainshed.cli.local.run_job import local_run_of, run_job, running_host_of
    from trainshed.workbench.custom_run import CustomFlags, custom_run

    args, user_args = request
    custom_flags = CustomFlags(
        words=words_of(args), pool_specs=args.worker_pool_spec, user_args=user_args
    )
    custom = custom_run(args.config, custom_flags, rulebook_of(args))
    cluster = cluster_table(custom.accepted.cluster) if custom.judged else ""
    gpu_count = _count_gpus() if args.gpu and not custom.judged else 0
    host = running_host_of(args)
    return run_job(local_run_of(args), custom_job_of(custom, gpu_count), host, cluster=cluster)


def custom_job_of(custom: "CustomRun", gpu_count: int = 0) -> "LocalJob":
    """Compose the job of a local run; ``gpu_count``: GPUs of any type for each replica (--gpu)."""
    from trainshed.planning.reduction_forecast import one_machine_advice
    from trainshed.workbench.local_run import LocalJob

    accepted, source = custom.accepted, custom.program.source()
    spec = accepted.spec
    return LocalJob(
        spec=spec,
        job_id=spec.job_id or f"{datetime.now(tz=UTC):%Y%m%d%H%M%S}{os.getpid():07d}",
        source=source,
        folder=source.folder,
        say=accepted.say,
        advice=(*accepted.advice, *one_machine_advice(spec, accepted.reduction)),
        is_local_program=bool(custom.program.command),  # --script or --python-module: no image
        any_gpu_count=gpu_count,
    )


def _count_gpus() -> int:
    from trainshed.engines.local.devices.find import devices

    if count := len(devices()):
        return count
    raise UsageFault("--gpu needs an NVIDIA GPU, and this machine has none; leave the flag out")
