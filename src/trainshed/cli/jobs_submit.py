"""``trainshed ai-platform jobs submit training``: packages first, then the job."""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trainshed.cli.connecting import ServerPlace, place_of, region_of
from trainshed.cli.drafting import send, spec_flags
from trainshed.cli.flags import Request
from trainshed.cli.submit_options import given_flags
from trainshed.cli.submitted import Submitted, report_created
from trainshed.client.collections import collection_of
from trainshed.client.uploads import staging_of
from trainshed.model.faults import UsageFault
from trainshed.workbench.job_drafts import Draft, Json, training_job
from trainshed.workbench.merging import put, spelled

GROUP = "ai-platform jobs"


def run(request: Request) -> int:
    """Submit a job; gives 0, or with ``--stream-logs`` the job's exit code."""
    args, user_args = request
    place, of = place_of(args), collection_of(GROUP)
    flags = given_flags(args)
    spec, kms_key = spec_flags(args, place.project)
    packages = _listed(flags.pop("packages", None))
    draft = Draft(config=args.config, words=flags, spec=spec, kms_key=kms_key)
    merged = training_job(args.job, draft, user_args)
    asked = merged.content.get(spelled(merged.content, "trainingInput"))
    if isinstance(asked, dict):
        asked.setdefault("region", region_of())
        if uris := _uploaded(args, place, packages, asked):
            put(merged.content, ("trainingInput", "packageUris"), uris)
    job = send(place.server, of.parent(place.project, place.region), merged)
    return report_created(args, place, Submitted(group=GROUP, name=args.job, resource=job))


def _listed(packages: str | None) -> list[str]:
    return [word for word in (packages or "").split(",") if word]


def _uploaded(
    args: argparse.Namespace, place: ServerPlace, packages: list[str], asked: Mapping[str, object]
) -> Json | list[str]:
    """The URIs of all packages of the command line, the remote ones first."""
    remote = [package for package in packages if "://" in package]
    local = [_existing(package) for package in packages if "://" not in package]
    if not (args.package_path or local):
        return remote
    job_dir = asked.get(spelled(asked, "jobDir"))
    staging = staging_of(args.job, args.staging_bucket, str(job_dir) if job_dir else None)
    with tempfile.TemporaryDirectory(prefix="trainshed-") as work:
        if args.package_path:
            from trainshed.workbench.sdists import build_sdist  # noqa: PLC0415  # engines, for uv

            local.insert(0, build_sdist(args.package_path, Path(work)))
        return [*remote, *staging.upload(place.server, local)]


def _existing(package: str) -> Path:
    path = Path(package)
    if not path.is_file():
        raise UsageFault(f"--packages: there is no file {package}")
    return path
