"""``trainshed ai-platform jobs update``: the labels are read, changed here and written back."""

import argparse
from collections.abc import Mapping

from trainshed.cli.connecting import place_of
from trainshed.cli.flags import Request
from trainshed.cli.terminal import out, out_json
from trainshed.client.collections import collection_of
from trainshed.workbench import submit_flags


def run(request: Request) -> int:
    """Change the labels of a job."""
    args = request.args
    place = place_of(args)
    path = collection_of("ai-platform jobs").path(args.job, place.project, place.region)
    before = place.server.call("GET", path).get("labels", {})
    document = {"labels": _changed(args, before)}
    found = place.server.call("PATCH", path, document, {"updateMask": "labels"})
    if args.format == "json":
        out_json(found)
    else:
        labels = ", ".join(
            f"{key}={value}" for key, value in sorted(found.get("labels", {}).items())
        )
        out(f"labels of {args.job}: {labels or 'none'}")
    return 0


def _changed(args: argparse.Namespace, before: Mapping[str, str]) -> dict[str, str]:
    removed = set(submit_flags.words(args.remove_labels or ""))
    kept = {} if args.clear_labels else {k: v for k, v in before.items() if k not in removed}
    return {**kept, **submit_flags.pairs("--update-labels", args.update_labels or "")}
