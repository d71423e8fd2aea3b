"""The command line of ``trainshed explain-env``."""

from collections.abc import Mapping, Sequence

from trainshed.cli import flags
from trainshed.cli.run_options import add_run_flags
from trainshed.cli.submit_options import add_cluster_flags
from trainshed.model.roles import Role
from trainshed.storage.buckets import GsPaths

EXAMPLE = """\
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


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    words, user_args = flags.split_user_args(argv)
    return flags.Request(_parser(prog).read(words), user_args)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Prints the variables that one replica of a job would see at Google: KEY=value, "
        "JSON indented.",
        example=EXAMPLE,
    )
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
    add_run_flags(parser, dry_run=False)
    parser.set_defaults(gs_paths=GsPaths.URI.value)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    return parser
