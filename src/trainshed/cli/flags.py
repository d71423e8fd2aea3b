"""Command lines as argparse reads them, in gcloud's manner, and the flags that verbs share."""

import argparse
import difflib
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple, NoReturn

from trainshed.model.faults import UsageFault

#: gcloud-wide flags that mean nothing here; they are taken and named in a note.
_IDLE_WORDS = (
    "--account",
    "--billing-project",
    "--configuration",
    "--flatten",
    "--impersonate-service-account",
    "--trace-token",
    "--verbosity",
)
_IDLE_SWITCHES = ("--log-http", "--user-output-enabled")


class Request(NamedTuple):
    """A command line that was read: the flags, and the words after a bare ``--``, if any."""

    args: argparse.Namespace
    user_args: tuple[str, ...] | None = None


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ours: one line, with the nearest flag."""

    def __init__(self, prog: str, *, summary: str, example: str, usage: str | None = None) -> None:
        """Make a parser with an example below its help."""
        super().__init__(
            prog=prog,
            usage=usage or f"{prog} [flags]",
            description=summary,
            epilog=f"example:\n{example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse a command line."""
        raise UsageFault(f"{message}; see {self.prog} --help")

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Read a command line.  Raises UsageFault; an unknown flag names the nearest one."""
        found, unknown = self.parse_known_args(argv)
        if unknown:
            flag = unknown[0].split("=")[0]
            near = difflib.get_close_matches(flag, self._option_string_actions, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognised argument {flag}{hint}")
        return found


def split_user_args(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """The service's own words, and the USER_ARGS after a bare ``--``; None without one (R2)."""
    words = list(argv)
    if "--" not in words:
        return words, None
    place = words.index("--")
    return words[:place], tuple(words[place + 1 :])


def read_with_user_args(parser: Parser, argv: Sequence[str], own: Iterable[str]) -> Request:
    """Read a command line whose flags ``own`` must stand before the ``--``.  Raises UsageFault."""
    words, user_args = split_user_args(argv)
    refuse_own_flags(user_args, own)
    return Request(parser.read(words), user_args)


def refuse_own_flags(user_args: Iterable[str] | None, own: Iterable[str]) -> None:
    """Refuse a flag of the service among the USER_ARGS: there it would do nothing (R2).

    gcloud hands it to the trainer without a word, and the service never sees it.
    """
    names = {f"--{name}" for name in own}
    for word in user_args or ():
        flag = word.split("=")[0]
        if flag in names:
            raise UsageFault(
                f"{flag} stands after the bare --, where everything goes to the trainer; "
                f"put {flag} before the --"
            )


def add_format(parser: argparse.ArgumentParser) -> None:
    """``--format text|json``."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="How results are printed"
    )


def add_catalog_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say what a job is judged by."""
    group = parser.add_argument_group("what the job is judged by")
    group.add_argument(
        "--edition", metavar="ID", help="Edition of the catalog, such as 2020-08 or 2026-08"
    )
    group.add_argument("--zone-snapshot", metavar="ID", help="Zone data, such as zones-2021-10-25")
    group.add_argument(
        "--overlay",
        metavar="FILE",
        action="append",
        default=[],
        help="TOML file with machine types, accelerators and regions of your own; repeatable",
    )
    group.add_argument(
        "--date", metavar="YYYY-MM-DD", type=_day, help="Day to judge by; default: today"
    )
    group.add_argument(
        "--scope",
        choices=("machines", "all"),
        help="machines leaves images, packages and runtime versions aside",
    )


def add_gcloud_wide(parser: argparse.ArgumentParser) -> None:
    """The flags of every gcloud command: ``--project`` is used, the others are only taken."""
    group = parser.add_argument_group("gcloud-wide flags")
    group.add_argument("--project", default="local", help="Project id that replicas are told")
    group.add_argument("--quiet", "-q", action="store_true", help=argparse.SUPPRESS)
    add_idle(parser, words=(*_IDLE_WORDS, "--access-token-file"), switches=_IDLE_SWITCHES)


def add_gcloud_idle(parser: argparse.ArgumentParser) -> None:
    """The flags of every gcloud command that mean nothing to a server."""
    add_idle(parser, words=_IDLE_WORDS, switches=_IDLE_SWITCHES)


def add_idle(
    parser: argparse.ArgumentParser, *, words: Iterable[str], switches: Iterable[str]
) -> None:
    """Flags that are taken so that scripts run, and mean nothing here."""
    for word in words:
        parser.add_argument(word, dest=f"idle{word}", metavar="X", help=argparse.SUPPRESS)
    for switch in switches:
        parser.add_argument(
            switch, dest=f"idle{switch}", action="store_true", help=argparse.SUPPRESS
        )


def idle_flags(args: argparse.Namespace) -> list[str]:
    """The flags that were given and mean nothing here."""
    given = vars(args).items()
    return [name.removeprefix("idle") for name, value in given if name.startswith("idle") and value]


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day; write YYYY-MM-DD") from None
