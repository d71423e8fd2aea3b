"""The command line of ``trainshed ai-platform local train``: every flag of gcloud's, and ours."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.run_options import add_run_flags
from trainshed.cli.submit_options import add_cluster_flags

#: The flags that the guide says must stand before ``--`` (R2): after it they are a slip.  All
#: others reach the trainer untouched.
NEVER_USER_ARGS = frozenset({"job-dir", "module-name", "package-path", "runtime-version"})

#: Flags of ``jobs submit training`` that mean nothing on one machine; taken, and named in a note.
_IDLE_WORDS = ("--staging-bucket", "--service-account", "--network")
_IDLE_KMS = ("--kms-key", "--kms-keyring", "--kms-location", "--kms-project")
_IDLE_SWITCHES = ("--stream-logs", "--async", "--enable-web-access")

EXAMPLE = """\
  trainshed ai-platform local train --module-name trainer.task --package-path trainer \\
      --config config.yaml --job-dir gs://my-bucket/out -- --epochs 3"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.read_with_user_args(_parser(prog), argv, NEVER_USER_ARGS)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Runs an AI Platform training job on this machine: one process, gcloud's "
        "--distributed cluster, or every replica of a config.yaml.",
        example=EXAMPLE,
        usage=f"{prog} [JOB] [flags] [-- USER_ARGS ...]",
    )
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
    add_run_flags(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    flags.add_idle(parser, words=(*_IDLE_WORDS, *_IDLE_KMS), switches=_IDLE_SWITCHES)
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser
