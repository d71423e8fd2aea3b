"""The command line of ``trainshed reduction plan``."""

import argparse
import math
from collections.abc import Sequence
from typing import Final

from trainshed.cli import flags

#: Beyond any network, and far from where numbers lose their meaning.
COUNT_MAX: Final = 1_000_000
RATE_MIN, RATE_MAX = 1e-3, 1e6
#: Google's advice for the buckets of DistributedDataParallel (reduction_server.toml, tuning).
GRADIENT_MB: Final = 64.0

EXAMPLE = """\
  trainshed reduction plan --config job.yaml --reducer-count 8
  trainshed reduction plan --worker-machine-type n1-highmem-96 --worker-count 5 \\
      --worker-accelerator count=8,type=nvidia-tesla-v100 --reducer-count 8
  trainshed reduction plan --worker-count 8 --worker-gbps 10 --reducer-gbps 25 --format json"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Says how many reducers match a job's workers, and how much faster than a ring "
        "that many and fewer make the exchange of gradients.",
        example=EXAMPLE,
    )
    parser.add_argument("--config", metavar="FILE", help="Job file, either dialect; flags win")
    parser.add_argument(
        "--gradient-mb",
        metavar="MB",
        type=_rate,
        default=GRADIENT_MB,
        help="Size of what is exchanged at once, in 1,000,000 bytes; default: 64",
    )
    parser.add_argument("--region", metavar="REGION", help="Region whose prices are shown")
    _add_workers(parser)
    _add_reducers(parser)
    flags.add_format(parser)
    flags.add_catalog_flags(parser)
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("worker hosts, in the place of the file's")
    group.add_argument("--worker-machine-type", metavar="TYPE", help="Machine type of each")
    group.add_argument(
        "--worker-count", metavar="N", type=_count, help="How many, the chief included"
    )
    group.add_argument(
        "--worker-accelerator",
        metavar="count=N,type=TYPE",
        help="Accelerators of each, such as count=8,type=nvidia-tesla-v100",
    )
    group.add_argument(
        "--worker-gbps", metavar="GBIT/S", type=_rate, help="The link of each, if you know better"
    )


def _add_reducers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reducers, in the place of the file's")
    group.add_argument(
        "--reducer-machine-type", metavar="TYPE", help="Machine type; default: n1-highcpu-16"
    )
    group.add_argument("--reducer-count", metavar="N", type=_count, help="How many you think of")
    group.add_argument(
        "--reducer-gbps", metavar="GBIT/S", type=_rate, help="The link of each, if you know better"
    )


def _count(text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        found = 0
    if not 1 <= found <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {COUNT_MAX}")
    return found


def _rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not RATE_MIN <= found <= RATE_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from {RATE_MIN:g} to {RATE_MAX:,.0f}"
        )
    return found
