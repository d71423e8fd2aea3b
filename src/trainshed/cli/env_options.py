"""The command line of ``trainshed env``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.server_flags import add_server_flags

EXAMPLE = """\
  trainshed env --shell --url http://127.0.0.1:8080 --project demo
  trainshed env --python --url http://127.0.0.1:8080
  eval "$(trainshed env)"    # from here on gcloud and the SDKs of this shell talk to the server"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Prints the settings that point gcloud and Google's SDKs at a server. The token "
        "itself is printed only with --format json: the others name the file or the variable that "
        "holds it. Storage clients send no header, so for them the token is part of the address.",
        example=EXAMPLE,
        usage=f"{prog} [--shell | --gcloud | --python] [flags]",
    )
    how = parser.add_mutually_exclusive_group()
    for name, text in (
        ("shell", "export lines for eval (the default)"),
        ("gcloud", "gcloud config set lines, for good; the region of ai-platform stays a flag"),
        ("python", "the first lines of a script that uses the Vertex SDK"),
    ):
        how.add_argument(f"--{name}", dest="how", action="store_const", const=name, help=text)
    parser.set_defaults(how="shell")
    parser.add_argument("--project", default="local", help="Project id (local)")
    parser.add_argument("--region", default="us-central1", help="Region (us-central1)")
    parser.add_argument(
        "--transport",
        choices=("rest", "grpc"),
        default="rest",
        help="What --python uses; without settings the SDK takes gRPC",
    )
    add_server_flags(parser)
    flags.add_format(parser)
    return parser
