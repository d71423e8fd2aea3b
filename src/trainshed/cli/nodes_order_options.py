"""The command lines of ``trainshed nodes drain``, ``maintain`` and ``resume``."""

import argparse
from collections.abc import Sequence
from typing import Final

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags
from trainshed.model.durations import FORM, seconds_of

#: Nobody waits longer for a checkpoint.
NOTICE_S_MAX: Final = 86_400.0

_SUMMARY: Final = {
    "drain": "Lets a node take no new replicas. Those on it run on; with --notice they are given "
    "notice as by maintain.",
    "maintain": "Takes a node out of service: it takes no new replicas, those on it are given "
    "notice, and their jobs start again by themselves, elsewhere or when the node is back, under "
    "the same replica names. What this costs a job does not count against its restarts.",
    "resume": "Lets a node take replicas again; jobs that wait for it start by themselves.",
}
_EXAMPLE: Final = {
    "drain": """\
  trainshed nodes drain gpu1
  trainshed nodes drain gpu1 --notice 2m --wait""",
    "maintain": """\
  trainshed nodes maintain gpu1 --wait
  trainshed nodes maintain gpu1 --notice 5m""",
    "resume": """\
  trainshed nodes resume gpu1""",
}


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    order = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog, summary=_SUMMARY[order], example=_EXAMPLE[order], usage=f"{prog} NODE [flags]"
    )
    parser.set_defaults(order=order, notice=None, wait=False)
    parser.add_argument("node", metavar="NODE", help="its name, as trainshed nodes shows it")
    if order != "resume":
        _add_notice(parser, default="120s" if order == "maintain" else "none: replicas run on")
    add_client_flags(parser)
    return flags.Request(parser.read(argv))


def _add_notice(parser: flags.Parser, default: str) -> None:
    parser.add_argument(
        "--notice",
        metavar="DURATION",
        type=_notice,
        help="What replicas get between being told and being killed, such as 120s, 2m or 1h; "
        f"default: {default}",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="Wait until no replica is on the node; Ctrl-C leaves the order as it is",
    )


def _notice(text: str) -> float:
    try:
        found = seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found > NOTICE_S_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a day; it takes {FORM}")
    return found
