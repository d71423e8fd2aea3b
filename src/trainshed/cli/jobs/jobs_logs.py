"""``trainshed jobs logs``: prints the log of a job, up to now or until the job ends."""

import sys
from typing import Final

from trainshed.cli import flag_values, flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import TRIAL_HELP, NamedJob, find_job
from trainshed.cli.jobs.line_flags import add_selection_flags, selection_of
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.resource_texts import wait_lines
from trainshed.cli.jobs.submitted import interruptible, report_job_continues, stream
from trainshed.cli.terminal import note
from trainshed.client.following import FollowedJob, LineSelection

EXAMPLE = """\
  trainshed jobs logs census_1
  trainshed jobs logs census_1 --tail 100
  trainshed jobs logs census_1 --follow
  trainshed jobs logs census_1 --grep "loss = nan"
  trainshed jobs logs census_1 --from-line 500000"""
TAIL_MAX: Final = 10_000


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Prints the log that a job has written so far. With --follow it continues until "
        "the job has ended. Ctrl-C leaves the job running.",
        example=EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument("job", metavar="JOB", help=TRIAL_HELP)
    add = flags.adder(parser)
    add("--follow -f", "Print new lines until the job ends", action="store_true")
    add(
        "--tail N",
        f"Begin with the last N lines, 1 to {TAIL_MAX}",
        type=flag_values.whole_number(1, TAIL_MAX),
    )
    add_selection_flags(parser)
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the lines; return 0, also for a job that failed."""
    args = request.args
    context = context_of(args)
    named = find_job(context, args.job)
    printer = LinePrinter(sys.stdout, as_json=args.format == "json")
    selection = selection_of(args, trial=named.trial, tail=args.tail)
    if not args.follow:
        _print_until_now(context, named, printer, selection)
        return 0
    followed = FollowedJob(context.server, named.path, note)
    try:
        stream(followed, printer, selection)
    except KeyboardInterrupt:
        return report_job_continues(context, "job", named.name)
    return 0


def _print_until_now(
    context: ServerContext, named: NamedJob, printer: LinePrinter, selection: LineSelection
) -> None:
    lines = context.server.lines(f"{named.path}/logs", selection.query)
    for line in interruptible(lines):
        printer.print_line(line)
    for text in wait_lines(named.job.get("waiting", {})):
        note(text)
