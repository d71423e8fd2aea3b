"""The command line of ``trainshed jobs watch``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

EXAMPLE = """\
  trainshed jobs watch census_1
  trainshed jobs watch projects/local/locations/us-central1/customJobs/4611686018427387904"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = flags.Parser(
        prog,
        summary="Shows a job while it runs: its state, its replicas and its last lines, redrawn in "
        "place on a terminal, line by line elsewhere. It ends with the job, as the primary replica "
        "did; Ctrl-C leaves the job running. With --format json it prints the job as one line "
        "whenever it has changed.",
        example=EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument(
        "job", metavar="JOB", help="AI Platform job id, Vertex job number, or full name of either"
    )
    add_client_flags(parser)
    return flags.Request(parser.read(argv))
