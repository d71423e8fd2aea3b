"""``trainshed attempts fence``: confirms that an unreachable attempt has no processes."""

import argparse
import re

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.terminal import note, out, out_json
from trainshed.client.collections import native_path

_KEY = re.compile(r"(.+)/([1-9][0-9]{0,8})")

_SUMMARY = (
    "Confirms that an attempt has no running processes, if its engine cannot check this because "
    "the node is off or was restarted. The attempt counts as lost, and its job starts again if its "
    "restarts allow it. Confirm only what you have checked: if the attempt still runs, two "
    "attempts run, and only programs that save with trainshed_trainer keep the older attempt from "
    "saving. For administrators of all projects; the events of the job and the audit log record "
    "your name."
)
_EXAMPLE = """\
  trainshed attempts fence 4611686018427387904/1
  trainshed attempts fence census_1/2 --format json"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog, summary=_SUMMARY, example=_EXAMPLE, usage=f"{prog} UID/ATTEMPT [flags]"
    )
    parser.add_argument(
        "attempt",
        metavar="UID/ATTEMPT",
        type=_key,
        help="The job's number, a slash, and the attempt's number; an AI Platform job id or a full "
        "name also identifies the job",
    )
    flags.add_client_flags(parser)
    return parser


def _key(text: str) -> tuple[str, str]:
    match = _KEY.fullmatch(text)
    if match is None:
        message = f"must be UID/ATTEMPT, such as 4611686018427387904/1, got {text!r}"
        raise argparse.ArgumentTypeError(message)
    return match[1], match[2]


def run(request: flags.Request) -> int:
    """Confirm that the attempt has no processes, and print the consequences."""
    args = request.args
    job, attempt = args.attempt
    context = context_of(args)
    uid = job if job.isdecimal() else _uid(context, job)
    response = context.server.call("POST", f"/trainshed/v1/attempts/{uid}/{attempt}:fence", {})
    if args.format == "json":
        out_json(response)
        return 0
    out(response["message"])
    events_command = context.command(f"jobs events {response['job']}")
    note(f"list its events with: {events_command}")
    return 0


def _uid(context: ServerContext, job: str) -> str:
    uid: str = context.server.call("GET", native_path(job, context.project))["uid"]
    return uid
