"""The command line of ``trainshed run``."""

from trainshed.cli import flags
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed run -- python submit.py
  trainshed run --project demo -- gcloud ai custom-jobs list --region us-central1
  trainshed run --offline -- pytest tests/"""
#: Where the server's gRPC port is unless it is known.
GRPC_PORT = 8081


def run(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Runs a program that was written for Google against a server, with nothing changed "
        "in it: Google's names lead to the server, and its default credentials open it. Exit "
        "status and signals are the command's; nothing stays in the shell or on disk. To run a "
        "job on this machine: trainshed ai custom-jobs local-run, or ai-platform local train. To "
        "submit one: trainshed ai custom-jobs create, or ai-platform jobs submit training.",
        example=EXAMPLE,
        usage=f"{prog} [flags] -- COMMAND [ARG ...]",
    )
    parser.own = ()
    parser.add_argument(
        "--project", help="Project id; default: CLOUDSDK_CORE_PROJECT, TRAINSHED_PROJECT, local"
    )
    parser.add_argument("--region", help="Region; default: CLOUDSDK_AI_REGION, us-central1")
    parser.add_argument(
        "--offline",
        action="store_true",
        help="Refuse all names that Trainshed does not serve, instead of passing them through",
    )
    parser.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        help="gRPC address of a server that is named with --url (its host, port 8081)",
    )
    flags.add_server_flags(parser)
    return parser


def command_of(prog: str, request: flags.Request) -> tuple[str, ...]:
    """The words after the bare ``--``.  Raises UsageFault where there are none."""
    if request.user_args:
        return request.user_args
    raise UsageFault(f"{prog} needs a command after a bare --, such as: {prog} -- python submit.py")
