"""The command lines of ``watch``, for jobs of any kind and for those of one collection."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags
from trainshed.cli.resources_options import NOUNS

_SHOWN = (
    "redrawn in place on a terminal, line by line elsewhere. Of a tuning job it shows the trials: "
    "those that run, the best and the newest. It ends with the job, as the primary replica did (a "
    "tuning job: with 0 if it succeeds); Ctrl-C leaves the job running. With --format json it "
    "prints the job as one line whenever it has changed; the trials of a tuning job have lines of "
    "their own."
)
EXAMPLE = """\
  trainshed jobs watch census_1
  trainshed jobs watch projects/local/locations/us-central1/customJobs/4611686018427387904"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    noun, example = NOUNS.get(group, ("job", ""))
    parser = flags.Parser(
        prog,
        summary=f"Shows a {noun} while it runs: its state, its replicas and its last lines, "
        f"{_SHOWN}",
        example=f"  {prog} {example}" if example else EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(group=group)
    told = "AI Platform job id, Vertex job number, or full name of either"
    named = f"Id or full name of the {noun}" if example else told
    parser.add_argument("job", metavar="JOB", help=named)
    add_client_flags(parser, region="Location" if group.startswith("ai ") else "")
    return flags.Request(parser.read(argv))
