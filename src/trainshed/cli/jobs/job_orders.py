"""``trainshed jobs delete`` and ``jobs label``: orders about jobs of any kind."""

import argparse

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.failures import EXIT_FAILED, print_error, print_refusal
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.terminal import out, out_json, print_result
from trainshed.client.faults import ServerRefusal
from trainshed.model.faults import UsageFault
from trainshed.service.jobs import submit_flags


def parser(prog: str) -> flags.Parser:
    """Return the parser of one of the two verbs."""
    is_delete = prog.endswith(" delete")
    parser = flags.Parser(
        prog,
        summary="Deletes jobs that have ended: they are no longer listed. Their logs and events "
        "stay until the server's retention removes them."
        if is_delete
        else "Sets and removes labels of a job of any kind, and prints all its labels.",
        example="  trainshed jobs delete census_1"
        if is_delete
        else "  trainshed jobs label census_1 --update-labels team=vision --remove-labels draft",
        usage=f"{prog} JOB... [flags]" if is_delete else f"{prog} JOB [flags]",
    )
    if is_delete:
        parser.set_defaults(act=_delete)
        parser.add_argument("job", metavar="JOB", nargs="+", help=HELP)
    else:
        parser.set_defaults(act=_label)
        parser.check = _check_labels
        parser.add_argument("job", metavar="JOB", help=HELP)
        add = flags.adder(parser)
        add("--update-labels KEY=VALUE,...", "Labels to set")
        add("--remove-labels KEY,...", "Labels to remove")
    flags.add_client_flags(parser)
    return parser


def _check_labels(parser: flags.Parser, args: argparse.Namespace) -> None:
    if not (args.update_labels or args.remove_labels):
        parser.error("nothing to change: give --update-labels or --remove-labels")


def run(request: flags.Request) -> int:
    """Carry out the order; return 1 if one of several jobs cannot be deleted."""
    code: int = request.args.act(request.args)
    return code


def _delete(args: argparse.Namespace) -> int:
    context = context_of(args)
    deleted: list[str] = []
    for text in args.job:
        try:
            job = find_job(context, text)
            context.server.call("DELETE", job.path)
        except ServerRefusal as refusal:
            print_refusal(refusal)
        except UsageFault as fault:
            print_error(str(fault))
        else:
            deleted.append(job.name)
            if args.format == "text":
                out(f"{job.name} is deleted")
    if args.format == "json":
        out_json(deleted)
    return 0 if len(deleted) == len(args.job) else EXIT_FAILED


def _label(args: argparse.Namespace) -> int:
    context = context_of(args)
    job = find_job(context, args.job)
    removed = dict.fromkeys(submit_flags.words(args.remove_labels or ""))
    changes = {**removed, **submit_flags.pairs("--update-labels", args.update_labels or "")}
    answer = context.server.call("POST", f"{job.path}:label", {"labels": changes})
    labels = ", ".join(f"{key}={value}" for key, value in sorted(answer["labels"].items()))
    print_result(args.format, answer, f"labels of {args.job}: {labels or 'none'}")
    return 0
