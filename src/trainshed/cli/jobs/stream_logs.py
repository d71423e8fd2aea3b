"""``stream-logs``: prints the log of a job of either dialect until the job has ended."""

import sys

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.job_names import report_other_project, resource_name
from trainshed.cli.jobs.line_flags import add_selection_flags, selection_of
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.submitted import report_left_running, stream
from trainshed.cli.terminal import note
from trainshed.client.collections import collection_of, native_path
from trainshed.client.following import FollowedJob


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    noun, example = flags.NOUNS[group]
    task = "workerpool0-0" if group.startswith("ai ") else "master-replica-0"
    parser = flags.Parser(
        prog,
        summary=f"Prints the log of a {noun} from its beginning until the {noun} has ended.",
        example=f"  {prog} {example}\n  {prog} {example} --task-name {task}\n"
        f'  {prog} {example} --grep "loss = nan"',
        usage=f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group)
    parser.add_argument("name", metavar="NAME", help=flags.name_help(group, noun))
    add_selection_flags(parser)
    flags.add_client_flags(parser, located=group.startswith("ai "))
    flags.add_idle(parser, words=("--polling-interval",), switches=("--allow-multiline-logs",))
    return parser


def run(request: flags.Request) -> int:
    """Print the lines; return 0 also for a job that failed, as gcloud does."""
    args = request.args
    context = context_of(args)
    name = resource_name(context, collection_of(args.group), args.name)
    followed = FollowedJob(context.server, native_path(name, context.project), note)
    try:
        printer = LinePrinter(sys.stdout, as_json=args.format == "json")
        with report_other_project(context, name):
            stream(followed, printer, selection_of(args))
    except KeyboardInterrupt:
        return report_left_running(context, args.group, name)
    return 0
