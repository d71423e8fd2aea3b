"""The command line of ``trainshed ai hp-tuning-jobs create``: gcloud's."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags, add_spec_flags
from trainshed.cli.custom_create_options import REGION

#: Flags of one value: name, metavar, help.
WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("max-trial-count", "N", "Trials in all (as the file says, else 1)"),
    ("parallel-trial-count", "N", "Trials at once (as the file says, else 1)"),
    ("algorithm", "NAME", "algorithm-unspecified, grid-search or random-search"),
    ("labels", "KEY=VALUE,...", "Labels of the job"),
)
EXAMPLE = "  {prog} --display-name tuned --config study.yaml --max-trial-count 6"


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI hyperparameter tuning job to a server: gcloud's command, for "
        "those who do not have it.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME --config FILE [flags]",
    )
    parser.add_argument(
        "--config", metavar="FILE", required=True, help="HyperparameterTuningJob; flags win"
    )
    for name, metavar, text in WORDS:
        parser.add_argument(f"--{name}", dest=f"word:{name}", metavar=metavar, help=text)
    add_spec_flags(parser, vertex=True)
    add_client_flags(parser, region=REGION)
    parser.set_defaults(stream_logs=False)
    return parser
