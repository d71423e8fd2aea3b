"""The commands that create jobs on a server: they turn gcloud's flags into a job document."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainshed.cli import flags, job_flags
from trainshed.cli.connecting import ServerContext, context_of, region_of
from trainshed.model.faults import UsageFault

if TYPE_CHECKING:
    from trainshed.client.faults import Json
    from trainshed.service.jobs.refusing import Merged
    from trainshed.workbench.job_drafts import Draft

_LABELS = ("labels", "KEY=VALUE,...", "Labels of the job")
_TUNING_WORDS = (
    ("display-name", "NAME", "Name of the job"),
    ("max-trial-count", "N", "Number of trials; default: as in the file, else 1"),
    ("parallel-trial-count", "N", "Trials that run at once; default: as in the file, else 1"),
    ("algorithm", "NAME", "algorithm-unspecified, grid-search or random-search"),
    _LABELS,
)

_POOL = "machine-type=n1-standard-4,container-image-uri=registry.example/team/train:1"
EXAMPLE = f"""\
  {{prog}} --display-name census \\
      --worker-pool-spec {_POOL} \\
      --worker-pool-spec {_POOL},replica-count=2 \\
      --command python,-c --args "print('hello')" --stream-logs
  {{prog}} --display-name census --config job.yaml
  {{prog}} --display-name census --config job.yaml --dry-run"""
TUNING_EXAMPLE = """\
  {prog} --display-name tuned --config study.yaml --max-trial-count 6
  {prog} --display-name tuned --config study.yaml --dry-run
  {prog} --display-name tuned --config study.yaml --warm-start results.csv --enqueue lr=0.01
  {prog} --display-name tuned --config study.yaml --prior lr=0.001 --prior batch=128:wide"""


def parser(prog: str) -> flags.Parser:
    """Return the parser of ``jobs submit training``, or of ``create`` for Vertex AI jobs."""
    if prog.endswith("submit training"):
        return _training_parser(prog)
    is_tuning = prog.endswith("ai hp-tuning-jobs create")
    parser = _tuning_parser(prog) if is_tuning else _custom_parser(prog)
    flags.add_spec_flags(parser, vertex=True)
    flags.add_no_plan(parser)
    flags.add_server_dry_run(parser)
    flags.add_client_flags(parser, located=True)
    return parser


def _custom_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI custom job to a server, with the flags of gcloud's command, "
        "on machines without gcloud.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME (--worker-pool-spec ... | --config FILE) [flags]",
    )
    parser.set_defaults(group="ai custom-jobs")
    job_flags.add_pool_flags(parser, (_LABELS,))
    flags.add_stream_flag(parser)
    return parser


def _tuning_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits a Vertex AI hyperparameter tuning job to a server, with the flags of "
        "gcloud's command, on machines without gcloud.",
        example=TUNING_EXAMPLE.format(prog=prog),
        usage=f"{prog} --display-name NAME --config FILE [flags]",
    )
    parser.set_defaults(group="ai hp-tuning-jobs", stream_logs=False)
    add = flags.adder(parser)
    add("--config FILE", "HyperparameterTuningJob; flags override it", required=True)
    job_flags.add_words(parser, _TUNING_WORDS)
    flags.add_study_start(parser)
    flags.add_priors(parser)
    return parser


#: Flags of the service that no trainer defines.  All other words after ``--`` go to the trainer.
NEVER_USER_ARGS = frozenset(
    {"job-dir", "module-name", "package-path", "runtime-version", "staging-bucket", "stream-logs"}
)

TRAINING_EXAMPLE = """\
  {prog} census_1 --module-name trainer.task --package-path trainer \\
      --staging-bucket gs://staging --runtime-version 2.11 --python-version 3.7 \\
      --stream-logs -- --epochs 3
  {prog} census_2 --config config.yaml --module-name trainer.task \\
      --package-path trainer --job-dir gs://staging/census_2 \\
      --runtime-version 2.11 --python-version 3.7
  {prog} census_3 --config config.yaml --module-name trainer.task \\
      --packages gs://staging/trainer-0.1.tar.gz \\
      --runtime-version 2.11 --python-version 3.7 --dry-run"""


def _training_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Submits an AI Platform training job to a server, with the flags of gcloud's "
        "command, on machines without gcloud. Flags override the file. Fields of the file without "
        "a flag stay as they are, also packageUris and enableWebAccess, which gcloud overwrites.",
        example=TRAINING_EXAMPLE.format(prog=prog),
        usage=f"{prog} JOB [flags] [-- USER_ARGS ...]",
    )
    parser.own_flags = NEVER_USER_ARGS
    parser.set_defaults(group="ai-platform jobs")
    parser.add_argument("job", metavar="JOB", help="Id of the job, unique in its project")
    add = flags.adder(parser)
    add("--config FILE", "Job file; flags override its fields")
    add("--package-path DIR", "Package to build and upload", type=Path)
    add(
        "--staging-bucket gs://BUCKET",
        "Bucket for local packages; default: a folder below --job-dir",
    )
    flags.add_stream_flag(parser)
    flags.add_study_start(parser)
    flags.add_priors(parser)
    job_flags.add_cluster_flags(parser, "they override the file")
    flags.add_spec_flags(parser, vertex=False)
    flags.add_no_plan(parser)
    flags.add_server_dry_run(parser)
    flags.add_client_flags(parser)
    flags.add_idle(parser, words=("--tpu-tf-version",), switches=("--async",))
    parser.add_argument_group("-- USER_ARGS", "Everything after a bare -- goes to the trainer.")
    return parser


_KMS_PARTS = {
    "kms_location": "locations",
    "kms_keyring": "keyRings",
    "kms_key": "cryptoKeys",
}


def run(request: flags.Request) -> int:
    """Create a job; return 0, or with ``--stream-logs`` the job's exit code.

    With ``--dry-run`` the job is not created, and its launch plan is printed.
    """
    from trainshed.cli.jobs.job_story import list_manifest_lines
    from trainshed.cli.jobs.study_priors import read_priors
    from trainshed.cli.jobs.study_starts import list_start_lines, name_fields, read_start
    from trainshed.cli.terminal import print_result
    from trainshed.client.faults import ServerRefusal
    from trainshed.model.labels import OFF, PLAN_LABEL
    from trainshed.service.jobs.merging import put

    args = request.args
    if args.dry_run:
        _check_dry_run(args)
    context = context_of(args)
    start = read_start(args, context)
    merged = _merge(request, context)
    for key, text in read_priors(getattr(args, "prior", [])):
        put(merged.content, ("labels", key), text)
    if args.no_plan:
        put(merged.content, ("labels", PLAN_LABEL), OFF)
    path, content = _request(args, context, merged.content, start)
    try:
        answer = context.server.call("POST", path, content)
    except ServerRefusal as refusal:  # name the flags that set the wrong fields
        raise refusal.with_flags(name_fields(merged.words, start)) from refusal
    if args.dry_run:
        lines = [*list_manifest_lines(answer), *list_start_lines(answer.get("studyStart", {}))]
        print_result(args.format, answer, "\n".join(lines))
        return 0
    job = {**answer["job"], "studyStart": answer["start"]} if start else answer
    return _report(args, context, job)


def _request(
    args: argparse.Namespace,
    context: ServerContext,
    job: Mapping[str, Any],
    start: Mapping[str, Any],
) -> tuple[str, Mapping[str, Any]]:
    """Return the path and the body of the request that creates a job, or tries it."""
    from trainshed.client.collections import collection_of, path_of

    collection = collection_of(args.group)
    if not args.dry_run and not start:
        return collection.parent(context.project, context.region), job
    verb = "dryRun" if args.dry_run else "createStudy"
    location = {"location": context.region} if collection.located else {}
    body = {"collection": collection.word, **location, "job": job, **start}
    return path_of("trainshed", "v1", "projects", context.project, f"jobs:{verb}"), body


def _report(args: argparse.Namespace, context: ServerContext, job: "Json") -> int:
    """Print a new job; with ``--stream-logs`` follow it and return its exit code."""
    from trainshed.cli.jobs.study_starts import list_start_lines
    from trainshed.cli.jobs.submitted import follow_created, report_created
    from trainshed.cli.terminal import note, out_json
    from trainshed.client.collections import collection_of

    name = job["name"] if collection_of(args.group).located else args.job
    if args.stream_logs:
        for line in list_start_lines(job.get("studyStart", {})):
            note(line)
        return follow_created(context, args.group, name, as_json=args.format == "json")
    if args.format == "json":
        out_json(job)
    else:
        report_created(context, args.group, name, job)
    return 0


def _check_dry_run(args: argparse.Namespace) -> None:
    """Raise UsageFault with all flags that need a job, or an upload."""
    faults = []
    if args.stream_logs:
        faults.append("--stream-logs: --dry-run starts no job; leave out one of the two flags")
    packages = job_flags.submit_flags_of(args).get("packages", "").split(",")
    local = [package for package in packages if package and "://" not in package]
    uploads = ["--package-path"] if getattr(args, "package_path", None) else []
    if local:
        uploads.append("--packages")
    if uploads:
        faults.append(
            f"{' and '.join(uploads)}: --dry-run uploads nothing; give packages that are in a "
            "bucket: --packages gs://BUCKET/FILE"
        )
    if faults:
        raise UsageFault("; ".join(faults))


def _merge(request: flags.Request, context: ServerContext) -> "Merged":
    """Merge the flags into the job file; upload the packages of an AI Platform job."""
    from trainshed.workbench.job_drafts import custom_job, tuning_job

    args, user_args = request
    draft = _draft_of(args, context.project)
    if args.group == "ai custom-jobs":
        return custom_job(args.worker_pool_spec, draft)
    if args.group == "ai hp-tuning-jobs":
        return tuning_job(draft)
    code = _LocalCode(args.package_path, args.staging_bucket)
    return _training(args.job, draft, user_args, code, context)


def _draft_of(args: argparse.Namespace, project: str) -> "Draft":
    """Return the fields of the job that flags set, and its file."""
    from trainshed.workbench.job_drafts import SPEC_SWITCHES, SPEC_WORDS, Draft

    values = vars(args)
    words = {
        field: values[f"spec:{name}"]
        for name, field in SPEC_WORDS.items()
        if values.get(f"spec:{name}")
    }
    switches = {
        field: True for name, field in SPEC_SWITCHES.items() if values.get(f"switch:{name}")
    }
    return Draft(
        config=args.config,
        words={**job_flags.words_of(args), **job_flags.submit_flags_of(args)},
        spec={**words, **switches},
        kms_key=_kms_key({name: values[name] for name in flags.KMS}, project),
    )


def _kms_key(parts: Mapping[str, str | None], project: str) -> str | None:
    """Return the full key name of the ``--kms-*`` flags.  Raises UsageFault if one is missing."""
    key = parts["kms_key"]
    if not key or "/" in key:
        return key or None
    words = [f"projects/{parts['kms_project'] or project}"]
    for name, word in _KMS_PARTS.items():
        if not parts[name]:
            flag = f"--{name.replace('_', '-')}"
            raise UsageFault(f"--kms-key {key} needs {flag}; or give the full name of the key")
        words.append(f"{word}/{parts[name]}")
    return "/".join(words)


class _LocalCode(NamedTuple):
    """The folder of the package to build, and the bucket to upload packages to."""

    package_path: Path | None
    staging_bucket: str | None


def _training(
    job_id: str,
    draft: "Draft",
    user_args: Sequence[str] | None,
    code: _LocalCode,
    context: ServerContext,
) -> "Merged":
    """Upload the packages of an AI Platform job; return its document."""
    from trainshed.service.jobs.merging import find_spelling, put
    from trainshed.workbench.job_drafts import training_job

    flag_values = dict(draft.words)
    packages = [package for package in flag_values.pop("packages", "").split(",") if package]
    merged = training_job(job_id, replace(draft, words=flag_values), user_args)
    training_input = merged.content.get(find_spelling(merged.content, "trainingInput"))
    if isinstance(training_input, dict):
        training_input.setdefault("region", region_of())
        job_dir = training_input.get(find_spelling(training_input, "jobDir"))
        if uris := _upload_packages(job_id, packages, code, job_dir, context):
            put(merged.content, ("trainingInput", "packageUris"), uris)
    return merged


def _upload_packages(
    job_id: str, packages: Sequence[str], code: _LocalCode, job_dir: Any, context: ServerContext
) -> list[str]:
    """Upload the local packages; return the URIs of all packages, the remote ones first."""
    import tempfile

    from trainshed.client.uploads import staging_of

    remote = [package for package in packages if "://" in package]
    local = [_check_package(package) for package in packages if "://" not in package]
    if not (code.package_path or local):
        return remote
    staging = staging_of(job_id, code.staging_bucket, str(job_dir) if job_dir else None)
    with tempfile.TemporaryDirectory(prefix="trainshed-") as folder:
        if code.package_path:
            from trainshed.workbench.sdists import build_sdist

            local.insert(0, build_sdist(code.package_path, Path(folder)))
        return [*remote, *staging.upload(context.server, local)]


def _check_package(package: str) -> Path:
    path = Path(package)
    if not path.is_file():
        raise UsageFault(f"--packages must name files that exist, got {package}")
    return path
