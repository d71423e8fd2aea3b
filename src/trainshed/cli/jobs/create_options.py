"""The command lines that create jobs: gcloud's, and ``--stream-logs``."""

from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.check.submit_options import add_cluster_flags

#: Flags of one value: name, metavar, help.
WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("python-package-uris", "URI,...", "Packages of all pools that have a python-module"),
    ("args", "ARG,...", "Arguments of every pool"),
    ("command", "WORD,...", "Command of every container pool"),
    ("labels", "KEY=VALUE,...", "Labels of the job"),
)
TUNING_WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("max-trial-count", "N", "Trials in all (as the file says, else 1)"),
    ("parallel-trial-count", "N", "Trials at once (as the file says, else 1)"),
    ("algorithm", "NAME", "algorithm-unspecified, grid-search or random-search"),
    ("labels", "KEY=VALUE,...", "Labels of the job"),
)

_POOL = "machine-type=n1-standard-4,container-image-uri=registry.example/team/train:1"
EXAMPLE = f"""\
  {{prog}} --display-name census \\
      --worker-pool-spec {_POOL} \\
      --worker-pool-spec {_POOL},replica-count=2 \\
      --command python,-c --args "print('hello')" --stream-logs
  {{prog}} --display-name census --config job.yaml"""


def create(prog: str) -> flags.Parser:
    """The command line of ``jobs submit training``, or of ``create`` for Vertex AI's jobs."""
    if prog.endswith("submit training"):
        return _training_parser(prog)
    is_tuning = prog.endswith("ai hp-tuning-jobs create")
    parser = _tuning_parser(prog) if is_tuning else _custom_parser(prog)
    for name, metavar, text in TUNING_WORDS if is_tuning else WORDS:
        parser.add_argument(f"--{name}", dest=f"word:{name}", metavar=metavar, help=text)
    flags.add_spec_flags(parser, vertex=True)
    flags.add_no_plan(parser)
    flags.add_client_flags(parser, located=True)
    return parser


def _custom_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI custom job to a server: gcloud's command, for those who do "
        "not have it.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME (--worker-pool-spec ... | --config FILE) [flags]",
    )
    parser.add_argument("--config", metavar="FILE", help="CustomJobSpec or CustomJob; flags win")
    parser.add_argument(
        "--worker-pool-spec",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="A pool, in order; repeatable; empty skips a pool. Keys: machine-type, replica-count, "
        "accelerator-type, accelerator-count, container-image-uri, or executor-image-uri and "
        "python-module",
    )
    parser.set_defaults(group="ai custom-jobs")
    flags.add_stream_flag(parser)
    return parser


TUNING_EXAMPLE = "  {prog} --display-name tuned --config study.yaml --max-trial-count 6"


def _tuning_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI hyperparameter tuning job to a server: gcloud's command, for "
        "those who do not have it.",
        example=TUNING_EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME --config FILE [flags]",
    )
    parser.add_argument(
        "--config", metavar="FILE", required=True, help="HyperparameterTuningJob; flags win"
    )
    parser.set_defaults(group="ai hp-tuning-jobs", stream_logs=False)
    return parser


#: Flags of the service that no trainer has; the others reach it untouched.
NEVER_USER_ARGS = frozenset(
    {"job-dir", "module-name", "package-path", "runtime-version", "staging-bucket", "stream-logs"}
)

TRAINING_EXAMPLE = """\
  {prog} census_1 --module-name trainer.task --package-path trainer \\
      --staging-bucket gs://staging --runtime-version 2.11 --python-version 3.7 \\
      --stream-logs -- --epochs 3
  {prog} census_2 --config config.yaml --module-name trainer.task \\
      --package-path trainer --job-dir gs://staging/census_2 \\
      --runtime-version 2.11 --python-version 3.7"""


def _training_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits an AI Platform training job to a server: gcloud's command, for those who "
        "do not have it. Flags win over the file; a field of the file that no flag was given for "
        "stays, packageUris and enableWebAccess included, which gcloud overwrites.",
        example=TRAINING_EXAMPLE.format(prog=prog),
        usage=f"{prog} JOB [flags] [-- USER_ARGS ...]",
    )
    parser.own = NEVER_USER_ARGS
    parser.set_defaults(group="ai-platform jobs")
    parser.add_argument("job", metavar="JOB", help="Id of the job, given once in a project")
    parser.add_argument("--config", metavar="FILE", help="Job file; flags win over its fields")
    parser.add_argument(
        "--package-path", metavar="DIR", type=Path, help="Package that is built and uploaded"
    )
    parser.add_argument(
        "--staging-bucket",
        metavar="gs://BUCKET",
        help="Where local packages are uploaded; default: below --job-dir",
    )
    flags.add_stream_flag(parser)
    add_cluster_flags(parser, "they win over the file")
    flags.add_spec_flags(parser, vertex=False)
    flags.add_no_plan(parser)
    flags.add_client_flags(parser)
    flags.add_idle(parser, words=("--tpu-tf-version",), switches=("--async",))
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser
