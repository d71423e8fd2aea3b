"""``stream-logs``: the log of a job of either dialect, until it has ended."""

import sys

from trainshed.cli.connecting import place_of
from trainshed.cli.flags import Request
from trainshed.cli.log_lines import LinePrinter
from trainshed.cli.notes import note
from trainshed.cli.submitted import left_running, stream
from trainshed.client.collections import native_path
from trainshed.client.following import Followed


def run(request: Request) -> int:
    """Print the lines; gives 0 however the job ended, as gcloud does."""
    args = request.args
    place = place_of(args)
    followed = Followed(place.server, native_path(args.name, place.project), note)
    try:
        printer = LinePrinter(sys.stdout, as_json=args.format == "json")
        stream(followed, printer, args.task_name, args.trial)
    except KeyboardInterrupt:
        return left_running(args, args.group, args.name)
    return 0
