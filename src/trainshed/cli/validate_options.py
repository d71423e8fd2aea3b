"""The command line of ``trainshed validate``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.submit_options import add_cluster_flags

EXAMPLE = """\
  trainshed validate config.yaml
  trainshed validate --edition 2020-05 --format json jobs/*.yaml
  trainshed validate config.yaml --worker-accelerator count=1,type=nvidia-tesla-t4"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Checks job files of either dialect against the catalog; prints every violation, "
        "or the cluster that the job would have.",
        example=EXAMPLE,
        usage=f"{prog} FILE... [flags]",
    )
    parser.add_argument("file", metavar="FILE", nargs="+", help="YAML or JSON; - reads stdin")
    parser.add_argument(
        "--quota", action="store_true", help="Say too whether valid jobs are within default quota"
    )
    flags.add_format(parser)
    flags.add_catalog_flags(parser)
    add_cluster_flags(parser, "override fields of every file")
    return parser
