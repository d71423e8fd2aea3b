"""The command lines of verbs that look at files, the catalog, a GPU, a study, a data directory."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from trainshed.cli import flags
from trainshed.cli.client_flags import NOUNS, add_client_flags
from trainshed.cli.run_options import add_run_flags
from trainshed.cli.submit_options import add_cluster_flags
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Role
from trainshed.storage.buckets import GsPaths


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    verb = prog.rpartition(" ")[2]
    if verb not in _WITH_USER_ARGS:
        return flags.Request(_PARSERS[verb](prog).read(argv))
    words, user_args = flags.split_user_args(argv)
    if verb == "gpu-check":
        _check_user_args(user_args)
    return flags.Request(_PARSERS[verb](prog).read(words), user_args)


def _check_user_args(user_args: Sequence[str] | None) -> None:
    flags.refuse_own_flags(user_args, ("module-name", "package-path"))
    if any(word.split("=")[0] == "--device" for word in user_args or ()):
        raise UsageFault("--device is what gpu-check itself gives the trainer; leave it out")


VALIDATE_EXAMPLE = """\
  trainshed validate config.yaml
  trainshed validate --edition 2020-05 --format json jobs/*.yaml
  trainshed validate config.yaml --worker-accelerator count=1,type=nvidia-tesla-t4"""


def _validate(prog: str) -> flags.Parser:
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


def _catalog(prog: str) -> flags.Parser:
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


def _explain_env(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Prints the variables that one replica of a job would see at Google: KEY=value, "
        "JSON indented.",
        example=EXPLAIN_ENV_EXAMPLE,
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


GPU_CHECK_EXAMPLE = """\
  trainshed gpu-check --module-name steps --package-path examples/gpu-check -- --steps 20"""


def _gpu_check(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Runs a trainer's few steps with --device cpu and, where there is a GPU, with "
        "--device cuda. The trainer ends with one line of JSON that has seconds.",
        example=GPU_CHECK_EXAMPLE,
        usage=f"{prog} --module-name MODULE [flags] [-- USER_ARGS ...]",
    )
    parser.add_argument("--module-name", metavar="MODULE", required=True, help="Module to run")
    parser.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    flags.add_format(parser)
    add_run_flags(parser, dry_run=False)
    flags.add_gcloud_wide(parser)
    return parser


DOCTOR_EXAMPLE = """\
  trainshed doctor
  trainshed doctor --data-dir /srv/trainshed --format json"""


def _doctor(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Checks a data directory, its database and its processes against everything that "
        "Trainshed promises, whether its server runs or not, and changes nothing. Prints each "
        "promise with ok or FAILED, what is at fault and what to do. Exit code: 0 if all hold, 1 "
        "if one fails, 2 if something cannot be looked at.",
        example=DOCTOR_EXAMPLE,
        usage=f"{prog} [flags]",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="Data directory; default: TRAINSHED_DATA_DIR"
    )
    parser.add_argument(
        "--database", metavar="URL", help="The server's database; default: as in config.toml"
    )
    flags.add_format(parser)
    return parser


def _report(prog: str) -> flags.Parser:
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    _, example = NOUNS[group]
    parser = flags.Parser(
        prog,
        summary="Writes how a tuning job went, or goes: one HTML page with Optuna's plots, the "
        "best trial with its arguments and a table of all trials, which needs no network and no "
        "other file; and the same table as CSV.",
        example=f"  {prog} {example}\n  {prog} {example} --out reports/",
        usage=f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group)
    parser.add_argument("name", metavar="NAME", help="Id or full name of the tuning job")
    parser.add_argument(
        "--out",
        metavar="PLACE",
        help="The page (a name that ends with .html, the table goes beside it) or a folder for "
        "both; default: the current folder",
    )
    add_client_flags(parser, region="Location" if group.startswith("ai ") else "")
    return parser


_WITH_USER_ARGS: Final = frozenset({"explain-env", "gpu-check"})
_PARSERS: Final[Mapping[str, Callable[[str], flags.Parser]]] = {
    "validate": _validate,
    "catalog": _catalog,
    "explain-env": _explain_env,
    "gpu-check": _gpu_check,
    "doctor": _doctor,
    "report": _report,
}
