"""The command lines of both local runs: every flag of gcloud's, and ours."""

import argparse
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.job_flags import add_cluster_flags
from trainshed.model.resources import FleetPolicy

#: The flags that the guide says must stand before ``--``: after it they are a slip.  All
#: others reach the trainer untouched.
_NEVER_OF_TRAIN = frozenset({"job-dir", "module-name", "package-path", "runtime-version"})

#: Flags of jobs on a server that mean nothing on one machine; taken, and named in a note.
_IDLE_KMS = ("--kms-key", "--kms-keyring", "--kms-location", "--kms-project")
_IDLE_WORDS = ("--service-account", *_IDLE_KMS)

TRAIN_EXAMPLE = """\
  trainshed ai-platform local train --module-name trainer.task --package-path trainer \\
      --config config.yaml --job-dir gs://my-bucket/out -- --epochs 3
  trainshed ai-platform local train --config config.yaml --module-name trainer.task --network job"""


def local_train(prog: str) -> flags.Parser:
    """The command line of ``trainshed ai-platform local train``."""
    parser = flags.Parser(
        prog,
        summary="Runs an AI Platform training job on this machine: one process, gcloud's "
        "--distributed cluster, or every replica of a config.yaml.",
        example=TRAIN_EXAMPLE,
        usage=f"{prog} [JOB] [flags] [-- USER_ARGS ...]",
    )
    parser.own = _NEVER_OF_TRAIN
    parser.add_argument("job", metavar="JOB", nargs="?", help="Id of the job")
    parser.add_argument("--config", metavar="FILE", help="Job file; flags win over its fields")
    parser.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="Without --config: 2 workers and 2 parameter servers, or as many as the counts say",
    )
    parser.add_argument(
        "--start-port", metavar="PORT", type=int, help="First port of the cluster; default: free"
    )
    flags.add_format(parser)
    add_cluster_flags(parser, "they win over the file")
    flags.add_run_flags(parser)
    _add_engine_flags(parser)
    _add_network_flag(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    switches = ("--stream-logs", "--async", "--enable-web-access")
    flags.add_idle(parser, words=("--staging-bucket", *_IDLE_WORDS), switches=switches)
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser


#: Flags of the service that no trainer has.
_NEVER_OF_CUSTOM = ("worker-pool-spec", "executor-image-uri", "local-package-path")

#: Flags of one value: name, metavar, help.
WORDS = (
    ("executor-image-uri", "URI", "Image that would run the code; here it is only a name"),
    ("local-package-path", "DIR", "Folder of the code; default: the current one"),
    ("script", "FILE", "Python file or shell script to run, relative to the folder"),
    ("python-module", "MODULE", "Module to run, relative to the folder"),
    ("requirements", "REQ,...", "Python dependencies to install"),
    ("extra-packages", "FILE,...", "Python archives to install, relative to the folder"),
    ("python-package-uris", "URI,...", "Packages of all pools that have a python-module"),
    ("args", "ARG,...", "Arguments of every pool"),
    ("command", "WORD,...", "Command of every container pool"),
    ("display-name", "NAME", "Name of the job"),
    ("region", "REGION", "Region whose machines are checked"),
    ("base-output-dir", "DIR", "Where AIP_MODEL_DIR and its sisters lie: a folder or gs://"),
)

_CUSTOM_IDLE = ("--extra-dirs", "--output-image-uri", "--service-account-key-file", "--labels")
_CUSTOM_IDLE_MORE = ("--docker-run-options", "--persistent-resource-id", *_IDLE_WORDS)

CUSTOM_EXAMPLE = """\
  trainshed ai custom-jobs local-run --script task.py --base-output-dir out -- --epochs 3
  trainshed ai custom-jobs local-run --config job.yaml --python-module trainer.task
  trainshed ai custom-jobs local-run --config job.yaml --python-module trainer.task --network job
  trainshed ai custom-jobs local-run --python-module trainer.task \\
      --worker-pool-spec machine-type=n1-standard-4,container-image-uri=img \\
      --worker-pool-spec machine-type=n1-standard-4,replica-count=3,container-image-uri=img"""


def custom_local_run(prog: str) -> flags.Parser:
    """The command line of ``trainshed ai custom-jobs local-run``."""
    parser = flags.Parser(
        prog,
        summary="Runs a Vertex AI custom job on this machine: one program, or every replica of "
        "a job's worker pools.",
        example=CUSTOM_EXAMPLE,
        usage=f"{prog} [flags] [-- ARGS ...]",
    )
    parser.own = _NEVER_OF_CUSTOM
    parser.add_argument("--config", metavar="FILE", help="CustomJobSpec or CustomJob; flags win")
    parser.add_argument(
        "--worker-pool-spec",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="A pool, in order; repeatable; empty skips a pool",
    )
    for name, metavar, text in WORDS:
        parser.add_argument(f"--{name}", dest=f"word:{name}", metavar=metavar, help=text)
    parser.add_argument("--gpu", action="store_true", help="Let the program see all GPUs here")
    flags.add_format(parser)
    flags.add_run_flags(parser)
    _add_engine_flags(parser)
    _add_network_flag(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    switches = ("--enable-web-access", "--enable-dashboard-access")
    flags.add_idle(parser, words=(*_CUSTOM_IDLE, *_CUSTOM_IDLE_MORE), switches=switches)
    parser.add_argument_group("-- ARGS", "Everything after a bare -- goes to the program.")
    return parser


#: Those of ``engines.container_runtime``; help is printed without importing an engine.
RUNTIMES = ("auto", "none", "docker", "podman", "apptainer")


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """What a server has in the table [fleet] of its settings, under the same names."""
    group = parser.add_argument_group("containers and limits, as a server has them")
    group.add_argument(
        "--container-runtime",
        choices=RUNTIMES,
        default="none",
        help="What runs the images of the job; auto: the first that answers; default: none, and "
        "images are only names",
    )
    group.add_argument(
        "--container-user",
        metavar="UID[:GID]",
        type=_container_user,
        help='Whom containers run as, or "image" for whom the image says; default: you, and '
        "65533:65533 where that is root",
    )
    group.add_argument(
        "--fleet-policy",
        choices=(FleetPolicy.EXACT.value, FleetPolicy.BEST_EFFORT.value),
        default=FleetPolicy.BEST_EFFORT.value,
        help="exact: no replica gets more memory or CPUs than its machine type has; default: "
        "best-effort, without limits",
    )


def _add_network_flag(parser: argparse.ArgumentParser) -> None:
    """``--network``, which names a VPC in scripts that were written for Google."""
    parser.add_argument(
        "--network",
        metavar="job|host",
        help="job: a network of the job's own, as jobs of a server have it, with the ports of "
        "Google and without the gateway; needs slirp4netns; default: host, this machine's. Any "
        "other name is a VPC of Google's and means nothing here",
    )


def _container_user(text: str) -> str:
    from trainshed.config.values import WrongValue, container_user

    try:
        return container_user(text)
    except WrongValue as wrong:
        raise argparse.ArgumentTypeError(f"{text!r} is not {wrong}") from None
