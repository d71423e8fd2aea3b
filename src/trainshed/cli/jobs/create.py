"""The commands that create jobs on a server: the flags and the file become a document."""

import argparse
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainshed.cli.check.submit_options import given_flags
from trainshed.cli.connecting import ServerPlace, place_of, region_of
from trainshed.cli.flags import Request
from trainshed.cli.jobs.create_options import TUNING_WORDS, WORDS
from trainshed.cli.jobs.submitted import report_created
from trainshed.client.collections import collection_of
from trainshed.client.faults import ServerRefusal
from trainshed.client.uploads import staging_of
from trainshed.model.faults import UsageFault
from trainshed.model.plan_wishes import OFF, PLAN_LABEL
from trainshed.service.jobs.refusing import Merged
from trainshed.workbench.job_drafts import (
    SPEC_SWITCHES,
    SPEC_WORDS,
    Draft,
    custom_job,
    training_job,
    tuning_job,
)
from trainshed.workbench.merging import put, spelled

_KMS_PARTS = {
    "kms_location": "locations",
    "kms_keyring": "keyRings",
    "kms_key": "cryptoKeys",
}


def run(request: Request) -> int:
    """Create a job; gives 0, or with ``--stream-logs`` the job's exit code."""
    args, user_args = request
    place, collection = place_of(args), collection_of(args.group)
    merged = _merge(args, place, user_args)
    if args.no_plan:
        put(merged.content, ("labels", PLAN_LABEL), OFF)
    path = collection.parent(place.project, place.region)
    try:
        job = place.server.call("POST", path, merged.content)
    except ServerRefusal as refusal:  # it names the flags that set the fields at fault
        raise refusal.in_words(merged.words) from refusal
    name = job["name"] if collection.located else args.job
    return report_created(args, place, name, job)


def _merge(args: argparse.Namespace, place: ServerPlace, user_args: Sequence[str] | None) -> Merged:
    if args.group == "ai custom-jobs":
        return custom_job(args.worker_pool_spec, _draft(args, place.project, WORDS))
    if args.group == "ai hp-tuning-jobs":
        return tuning_job(_draft(args, place.project, TUNING_WORDS))
    return _training(args, place, user_args)


def _training(
    args: argparse.Namespace, place: ServerPlace, user_args: Sequence[str] | None
) -> Merged:
    """A job of AI Platform; its packages are uploaded first."""
    flags = given_flags(args)
    spec, kms_key = _spec_flags(args, place.project)
    packages = [word for word in flags.pop("packages", "").split(",") if word]
    draft = Draft(config=args.config, words=flags, spec=spec, kms_key=kms_key)
    merged = training_job(args.job, draft, user_args)
    training_input = merged.content.get(spelled(merged.content, "trainingInput"))
    if isinstance(training_input, dict):
        training_input.setdefault("region", region_of())
        if uris := _upload_packages(args, place, packages, training_input):
            put(merged.content, ("trainingInput", "packageUris"), uris)
    return merged


def _upload_packages(
    args: argparse.Namespace,
    place: ServerPlace,
    packages: list[str],
    training_input: Mapping[str, object],
) -> list[str]:
    """The URIs of all packages of the command line, the remote ones first."""
    remote = [package for package in packages if "://" in package]
    local = [_check_package(package) for package in packages if "://" not in package]
    if not (args.package_path or local):
        return remote
    job_dir = training_input.get(spelled(training_input, "jobDir"))
    staging = staging_of(args.job, args.staging_bucket, str(job_dir) if job_dir else None)
    with tempfile.TemporaryDirectory(prefix="trainshed-") as work:
        if args.package_path:
            from trainshed.workbench.sdists import build_sdist  # noqa: PLC0415  # engines, for uv

            local.insert(0, build_sdist(args.package_path, Path(work)))
        return [*remote, *staging.upload(place.server, local)]


def _check_package(package: str) -> Path:
    path = Path(package)
    if not path.is_file():
        raise UsageFault(f"--packages: there is no file {package}")
    return path


def _draft(args: argparse.Namespace, project: str, rows: Iterable[tuple[str, str, str]]) -> Draft:
    words = {name: getattr(args, f"word:{name}") for name, _, _ in rows}
    spec, kms_key = _spec_flags(args, project)
    return Draft(
        config=args.config,
        words={name: value for name, value in words.items() if value is not None},
        spec=spec,
        kms_key=kms_key,
    )


def _spec_flags(args: argparse.Namespace, project: str) -> tuple[dict[str, Any], str | None]:
    values = vars(args)
    words = {
        field: values[f"spec:{name}"]
        for name, field in SPEC_WORDS.items()
        if values.get(f"spec:{name}")
    }
    switches = {
        field: True for name, field in SPEC_SWITCHES.items() if values.get(f"switch:{name}")
    }
    return {**words, **switches}, _kms_key(args, project)


def _kms_key(args: argparse.Namespace, project: str) -> str | None:
    if not args.kms_key or "/" in args.kms_key:
        return args.kms_key or None
    parts = [f"projects/{args.kms_project or project}"]
    for name, word in _KMS_PARTS.items():
        if not getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageFault(f"--kms-key {args.kms_key} wants {flag}, or a full name")
        parts.append(f"{word}/{getattr(args, name)}")
    return "/".join(parts)
