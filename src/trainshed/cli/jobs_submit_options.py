"""The command line of ``trainshed ai-platform jobs submit training``: gcloud's."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags, add_spec_flags, add_stream_flag
from trainshed.cli.submit_options import add_cluster_flags

#: Flags of the service that no trainer has (R2); the others reach it untouched.
NEVER_USER_ARGS = frozenset(
    {"job-dir", "module-name", "package-path", "runtime-version", "staging-bucket", "stream-logs"}
)

EXAMPLE = """\
  {prog} census_1 --module-name trainer.task --package-path trainer \\
      --staging-bucket gs://staging --runtime-version 2.11 --python-version 3.7 \\
      --stream-logs -- --epochs 3
  {prog} census_2 --config config.yaml --module-name trainer.task \\
      --package-path trainer --job-dir gs://staging/census_2 \\
      --runtime-version 2.11 --python-version 3.7"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.read_with_user_args(_parser(prog), argv, NEVER_USER_ARGS)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits an AI Platform training job to a server: gcloud's command, for those who "
        "do not have it. Flags win over the file; a field of the file that no flag was given for "
        "stays, packageUris and enableWebAccess included, which gcloud overwrites.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} JOB [flags] [-- USER_ARGS ...]",
    )
    parser.add_argument("job", metavar="JOB", help="Id of the job, given once in a project")
    parser.add_argument("--config", metavar="FILE", help="Job file; flags win over its fields")
    parser.add_argument(
        "--package-path", metavar="DIR", type=Path, help="Package that is built and uploaded"
    )
    parser.add_argument(
        "--staging-bucket",
        metavar="gs://BUCKET",
        help="Where local packages are uploaded; default: below --job-dir",
    )
    add_stream_flag(parser)
    add_cluster_flags(parser, "they win over the file")
    add_spec_flags(parser, vertex=False)
    add_client_flags(parser)
    flags.add_idle(parser, words=("--tpu-tf-version",), switches=("--async",))
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser
