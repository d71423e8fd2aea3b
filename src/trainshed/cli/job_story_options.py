"""The command lines of ``trainshed jobs events`` and ``trainshed jobs explain``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

_SUMMARIES = {
    "events": "Tells the story of a job: what happened to it, and when.",
    "explain": "Says why a job is where it is: what it waits for, its place in the queue, and the "
    "one change that would let it start now.",
}


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    action = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action],
        example=f"  {prog} census_1",
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(action=action)
    parser.add_argument(
        "job", metavar="JOB", help="AI Platform job id, Vertex job number, or full name of either"
    )
    add_client_flags(parser)
    return parser
