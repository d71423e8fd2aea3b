"""The command line of ``trainshed ai custom-jobs local-run``: local-run's flags and create's."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.run_options import add_run_flags

#: Flags of the service that no trainer has (R2).
NEVER_USER_ARGS = ("worker-pool-spec", "executor-image-uri", "local-package-path")

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

_IDLE_WORDS = ("--extra-dirs", "--output-image-uri", "--service-account-key-file", "--labels")
_IDLE_WORDS_CREATE = ("--docker-run-options", "--network", "--service-account", "--kms-key")
_IDLE_MORE = ("--kms-keyring", "--kms-location", "--kms-project", "--persistent-resource-id")
_IDLE_SWITCHES = ("--enable-web-access", "--enable-dashboard-access")

EXAMPLE = """\
  trainshed ai custom-jobs local-run --script task.py --base-output-dir out -- --epochs 3
  trainshed ai custom-jobs local-run --config job.yaml --python-module trainer.task
  trainshed ai custom-jobs local-run --python-module trainer.task \\
      --worker-pool-spec machine-type=n1-standard-4,container-image-uri=img \\
      --worker-pool-spec machine-type=n1-standard-4,replica-count=3,container-image-uri=img"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.read_with_user_args(_parser(prog), argv, NEVER_USER_ARGS)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Runs a Vertex AI custom job on this machine: one program, or every replica of "
        "a job's worker pools.",
        example=EXAMPLE,
        usage=f"{prog} [flags] [-- ARGS ...]",
    )
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
    add_run_flags(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    idle = (*_IDLE_WORDS, *_IDLE_WORDS_CREATE, *_IDLE_MORE)
    flags.add_idle(parser, words=idle, switches=_IDLE_SWITCHES)
    parser.add_argument_group("-- ARGS", "Everything after a bare -- goes to the program.")
    return parser
