"""The command lines of list, describe, cancel and delete, for every collection."""

import argparse
from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

#: What a resource of each group of commands is called, and an id as it may look.
NOUNS = {
    "ai-platform jobs": ("job", "census_1"),
    "ml-engine jobs": ("job", "census_1"),
    "ai custom-jobs": ("custom job", "4611686018427387904"),
    "ai hp-tuning-jobs": ("tuning job", "4611686018427387904"),
    "ai pipelines": ("training pipeline", "4611686018427387904"),
}

_SUMMARIES = {
    "list": "Lists the {noun}s of a project, newest first.",
    "describe": "Shows a {noun} as the server has it, and why it waits if it does.",
    "cancel": "Ends a {noun}; one that has ended stays as it is.",
    "delete": "Forgets a {noun} that has ended.",
}
_REGION = "Location; default: CLOUDSDK_AI_REGION, CLOUDSDK_COMPUTE_REGION, us-central1"


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    group, _, action = prog.removeprefix("trainshed ").rpartition(" ")
    noun, example = NOUNS[group]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action].format(noun=noun),
        example=f"  {prog}" if action == "list" else f"  {prog} {example}",
        usage=f"{prog} [flags]" if action == "list" else f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group, action=action, summarize=False)
    if action == "list":
        _add_list_flags(parser)
    else:
        parser.add_argument("name", metavar="NAME", help=f"Id or full name of the {noun}")
    if action == "describe" and group != "ai pipelines":
        parser.add_argument(
            "--summarize", action="store_true", help="Show the main figures in tables"
        )
    located = group.startswith("ai ")
    add_client_flags(parser, region=_REGION if located else "")
    return parser


def _add_list_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--filter",
        metavar="TEXT",
        default="",
        help="Comparisons that all hold, such as: state=RUNNING labels.team:vision "
        "createTime>2026-01-31 NOT displayName~^test; operators = != : ~ < <= > >=",
    )
    parser.add_argument("--limit", metavar="N", type=_count, help="Show so many at most")
    parser.add_argument(
        "--sort-by", metavar="FIELD,...", default="", help="Sort by fields; ~FIELD downwards"
    )
    parser.add_argument(
        "--page-size", metavar="N", type=_count, help="Ask the server for so many at once"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of resources")
    return int(text)
