"""``trainshed plan score``: counts how many of a server's predictions were right."""

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import note, print_result
from trainshed.client.collections import pages, path_of


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Counts how many of a project's jobs took a time inside their 80 % intervals, by "
        "the kind of question, and lists the others. A server predicts a job if an earlier job "
        "had the same trainer and machines.",
        example=f"  {prog} --project demo",
        usage=f"{prog} [flags]",
    )
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Count all predictions that the server has stored."""
    from trainshed.planning.job_outcome import score

    args = request.args
    context = context_of(args)
    path = path_of("trainshed", "v1", "projects", context.project, "outcomes")
    outcomes = list(pages(context.server, path, "outcomes"))
    if not outcomes:
        note(f"project {context.project} has no finished job with a prediction yet")
    misses = [
        f"{outcome['job']}: {outcome['sentence']}." for outcome in outcomes if not outcome["inside"]
    ]
    print_result(args.format, outcomes, "\n".join([*score(outcomes), *misses]))
    return 0
