"""The command lines of verbs that look at files, the catalog, a GPU, a study, a data directory."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainshed.cli import flags
from trainshed.cli.job_flags import add_cluster_flags
from trainshed.model.roles import Role
from trainshed.storage.buckets import GsPaths

VALIDATE_EXAMPLE = """\
  trainshed validate config.yaml
  trainshed validate --edition 2020-05 --format json jobs/*.yaml
  trainshed validate config.yaml --worker-accelerator count=1,type=nvidia-tesla-t4"""


def validate(prog: str) -> flags.Parser:
    """The command line of ``trainshed validate``."""
    parser = flags.Parser(
        prog,
        summary="Checks job files of either dialect against the catalog; prints every violation, "
        "or the cluster that the job would have.",
        example=VALIDATE_EXAMPLE,
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


#: What can be shown; ``workbench.catalog_rows`` has a function for each.
CATALOG_NOUNS = ("machine-types", "accelerators", "regions", "runtimes", "images", "editions")

CATALOG_EXAMPLE = """\
  trainshed catalog machine-types list --edition 2020-08
  trainshed catalog accelerators describe NVIDIA_TESLA_T4 --edition 2020-08 --format json"""


def catalog(prog: str) -> flags.Parser:
    """The command line of ``trainshed catalog``."""
    parser = flags.Parser(
        prog,
        summary="Shows what the catalog knows: with sources, and as of an edition.",
        example=CATALOG_EXAMPLE,
        usage=f"{prog} NOUN [list | describe NAME] [flags]",
    )
    parser.add_argument(
        "noun", choices=CATALOG_NOUNS, metavar="NOUN", help=", ".join(CATALOG_NOUNS)
    )
    parser.add_argument(
        "action", choices=("list", "describe"), nargs="?", default="list", help="default: list"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="what to describe")
    parser.add_argument("--edition", metavar="ID", help="default: the newest")
    parser.add_argument("--zone-snapshot", metavar="ID", help="zone data, for regions")
    parser.add_argument("--overlay", metavar="FILE", action="append", default=[])
    flags.add_format(parser)
    return parser


EXPLAIN_ENV_EXAMPLE = """\
  trainshed explain-env --config config.yaml --module-name trainer.task --role worker --index 1
  trainshed explain-env --config job.yaml --role primary --format json"""

#: What people call a role, in either dialect; pool 2 may be two roles.
ROLES: Mapping[str, Role] = {
    "primary": Role.PRIMARY,
    "master": Role.PRIMARY,
    "chief": Role.PRIMARY,
    "workerpool0": Role.PRIMARY,
    "worker": Role.WORKER,
    "workerpool1": Role.WORKER,
    "parameter-server": Role.PARAMETER_SERVER,
    "parameter_server": Role.PARAMETER_SERVER,
    "ps": Role.PARAMETER_SERVER,
    "workerpool2": Role.PARAMETER_SERVER,
    "reducer": Role.REDUCER,
    "evaluator": Role.EVALUATOR,
    "workerpool3": Role.EVALUATOR,
}


def explain_env(prog: str) -> flags.Parser:
    """The command line of ``trainshed explain-env``."""
    parser = flags.Parser(
        prog,
        summary="Prints the variables that one replica of a job would see at Google: KEY=value, "
        "JSON indented.",
        example=EXPLAIN_ENV_EXAMPLE,
    )
    parser.own = ()
    parser.add_argument("--config", metavar="FILE", required=True, help="Job file, either dialect")
    parser.add_argument(
        "--role",
        choices=tuple(ROLES),
        default="primary",
        metavar="ROLE",
        help=", ".join(dict.fromkeys(ROLES)),
    )
    parser.add_argument("--index", type=int, default=0, metavar="N", help="Number in the role")
    flags.add_format(parser)
    add_cluster_flags(parser, "they win over the file")
    flags.add_run_flags(parser, dry_run=False)
    parser.set_defaults(gs_paths=GsPaths.URI.value)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    return parser


GPU_CHECK_EXAMPLE = """\
  trainshed gpu-check --module-name steps --package-path examples/gpu-check -- --steps 20"""


def gpu_check(prog: str) -> flags.Parser:
    """The command line of ``trainshed gpu-check``."""
    parser = flags.Parser(
        prog,
        summary="Measures a trainer's steps with --device cpu and, where there are GPUs, with "
        "--device cuda on one and on all of them, and says whether they pay. A trainer whose steps "
        "no hook sees ends with one line of JSON that has seconds.",
        example=GPU_CHECK_EXAMPLE,
        usage=f"{prog} --module-name MODULE [flags] [-- USER_ARGS ...]",
    )
    parser.own = ("module-name", "package-path")
    parser.add_argument("--module-name", metavar="MODULE", required=True, help="Module to run")
    parser.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    parser.add_argument(
        "--accelerator", metavar="TYPE", help="The GPU that is meant; another is refused"
    )
    parser.add_argument(
        "--cpu-price", metavar="P", type=flags.above_zero, help="An hour of a machine without GPUs"
    )
    parser.add_argument(
        "--gpu-price",
        metavar="P",
        type=flags.above_zero,
        help="An hour of one with a GPU, same currency",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=flags.above_zero,
        default=15.0,
        help="Longest time of a run's steps",
    )
    flags.add_format(parser)
    flags.add_run_flags(parser, dry_run=False)
    flags.add_gcloud_wide(parser)
    return parser


#: Beyond any network, and far from where numbers lose their meaning.
COUNT_MAX: Final = 1_000_000
RATE_MIN, RATE_MAX = 1e-3, 1e6
#: Google's advice for the buckets of DistributedDataParallel (reduction_server.toml, tuning).
GRADIENT_MB: Final = 64.0

REDUCTION_EXAMPLE = """\
  trainshed reduction plan --config job.yaml --reducer-count 8
  trainshed reduction plan --worker-machine-type n1-highmem-96 --worker-count 5 \\
      --worker-accelerator count=8,type=nvidia-tesla-v100 --reducer-count 8
  trainshed reduction plan --worker-count 8 --worker-gbps 10 --reducer-gbps 25 --format json"""


def reduction_plan(prog: str) -> flags.Parser:
    """The command line of ``trainshed reduction plan``."""
    parser = flags.Parser(
        prog,
        summary="Says how many reducers match a job's workers, and how much faster than a ring "
        "that many and fewer make the exchange of gradients.",
        example=REDUCTION_EXAMPLE,
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
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {COUNT_MAX}")
    return count


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not RATE_MIN <= rate <= RATE_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from {RATE_MIN:g} to {RATE_MAX:,.0f}"
        )
    return rate
