"""``trainshed ai-platform jobs update``: reads the labels of a job, changes and writes them."""

import argparse

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import print_result
from trainshed.client.collections import collection_of
from trainshed.service.jobs import submit_flags

EXAMPLE = "  {prog} census_1 --update-labels team=vision,phase=two --remove-labels draft"


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if not (args.update_labels or args.remove_labels or args.clear_labels):
        parser.error("nothing to update: give --update-labels, --remove-labels or --clear-labels")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Changes the labels of a job.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} JOB [flags]",
    )
    parser.check = _check
    parser.add_argument("job", metavar="JOB", help="Id of the job")
    parser.add_argument("--update-labels", metavar="KEY=VALUE,...", help="Labels to set")
    add = flags.adder(parser.add_mutually_exclusive_group())
    add("--remove-labels KEY,...", "Labels to remove")
    add("--clear-labels", "Remove all labels before --update-labels", action="store_true")
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Change the labels of a job, and print them."""
    args = request.args
    context = context_of(args)
    path = collection_of("ai-platform jobs").path(args.job, context.project, context.region)
    old_labels = context.server.call("GET", path).get("labels", {})
    removed = old_labels if args.clear_labels else submit_flags.words(args.remove_labels or "")
    remaining = {key: value for key, value in old_labels.items() if key not in removed}
    new_labels = submit_flags.pairs("--update-labels", args.update_labels or "")
    document = {"labels": {**remaining, **new_labels}}
    job = context.server.call("PATCH", path, document, {"updateMask": "labels"})
    labels = ", ".join(f"{key}={value}" for key, value in sorted(job.get("labels", {}).items()))
    print_result(args.format, job, f"labels of {args.job}: {labels or 'none'}")
    return 0
