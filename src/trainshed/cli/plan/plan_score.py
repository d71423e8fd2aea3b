"""``trainshed plan score``: how often a server's predictions have held."""

from trainshed.cli import flags
from trainshed.cli.connecting import place_of
from trainshed.cli.terminal import answer, note
from trainshed.client.collections import pages, path_of
from trainshed.planning.job_outcome import score


def run(request: flags.Request) -> int:
    """Count all that the server keeps."""
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
