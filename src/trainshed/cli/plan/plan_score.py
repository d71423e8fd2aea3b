"""``trainshed plan score``: how often a server's predictions have held."""

from trainshed.cli import flags
from trainshed.cli.connecting import place_of
from trainshed.cli.terminal import answer, note
from trainshed.client.collections import pages, path_of


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Says how many of a project's jobs took as long as their 80 % intervals said, by "
        "the kind of question, and which did not. A server predicts every job whose trainer and "
        "machines an earlier job has taught it.",
        example=f"  {prog} --project demo",
        usage=f"{prog} [flags]",
    )
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Count all that the server keeps."""
    from trainshed.planning.job_outcome import score

    args = request.args
    place = place_of(args)
    path = path_of("trainshed", "v1", "projects", place.project, "outcomes")
    outcomes = list(pages(place.server, path, "outcomes"))
    if not outcomes:
        note("nothing was predicted of a job of this project yet")
    misses = [
        f"{outcome['job']}: {outcome['sentence']}." for outcome in outcomes if not outcome["inside"]
    ]
    answer(args.format, outcomes, "\n".join([*score(outcomes), *misses]))
    return 0
