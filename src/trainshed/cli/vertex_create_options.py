"""The command lines of ``create`` for custom and tuning jobs: gcloud's, and ``--stream-logs``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags, add_spec_flags, add_stream_flag

#: Flags of one value: name, metavar, help.
WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("python-package-uris", "URI,...", "Packages of all pools that have a python-module"),
    ("args", "ARG,...", "Arguments of every pool"),
    ("command", "WORD,...", "Command of every container pool"),
    ("labels", "KEY=VALUE,...", "Labels of the job"),
)
REGION = "Location; default: CLOUDSDK_AI_REGION, CLOUDSDK_COMPUTE_REGION, us-central1"

_POOL = "machine-type=n1-standard-4,container-image-uri=registry.example/team/train:1"
EXAMPLE = f"""\
  {{prog}} --display-name census \\
      --worker-pool-spec {_POOL} \\
      --worker-pool-spec {_POOL},replica-count=2 \\
      --command python,-c --args "print('hello')" --stream-logs
  {{prog}} --display-name census --config job.yaml"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = _tuning_parser if prog.endswith("ai hp-tuning-jobs create") else _parser
    return flags.Request(parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI custom job to a server: gcloud's command, for those who do "
        "not have it.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME (--worker-pool-spec ... | --config FILE) [flags]",
    )
    parser.add_argument("--config", metavar="FILE", help="CustomJobSpec or CustomJob; flags win")
    parser.add_argument(
        "--worker-pool-spec",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="A pool, in order; repeatable; empty skips a pool. Keys: machine-type, replica-count, "
        "accelerator-type, accelerator-count, container-image-uri, or executor-image-uri and "
        "python-module",
    )
    for name, metavar, text in WORDS:
        parser.add_argument(f"--{name}", dest=f"word:{name}", metavar=metavar, help=text)
    parser.set_defaults(group="ai custom-jobs")
    add_stream_flag(parser)
    add_spec_flags(parser, vertex=True)
    add_client_flags(parser, region=REGION)
    return parser


#: Flags of one value: name, metavar, help.
TUNING_WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("max-trial-count", "N", "Trials in all (as the file says, else 1)"),
    ("parallel-trial-count", "N", "Trials at once (as the file says, else 1)"),
    ("algorithm", "NAME", "algorithm-unspecified, grid-search or random-search"),
    ("labels", "KEY=VALUE,...", "Labels of the job"),
)
TUNING_EXAMPLE = "  {prog} --display-name tuned --config study.yaml --max-trial-count 6"


def _tuning_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI hyperparameter tuning job to a server: gcloud's command, for "
        "those who do not have it.",
        example=TUNING_EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME --config FILE [flags]",
    )
    parser.add_argument(
        "--config", metavar="FILE", required=True, help="HyperparameterTuningJob; flags win"
    )
    for name, metavar, text in TUNING_WORDS:
        parser.add_argument(f"--{name}", dest=f"word:{name}", metavar=metavar, help=text)
    add_spec_flags(parser, vertex=True)
    add_client_flags(parser, region=REGION)
    parser.set_defaults(group="ai hp-tuning-jobs", stream_logs=False)
    return parser
