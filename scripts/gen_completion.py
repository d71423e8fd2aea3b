"""Writes the shell completions and the man page from the command lines of the verbs.

    python scripts/gen_completion.py

The texts are kept in ``src/trainshed/cli/shell``; ``tests/cli/test_completion.py`` compares them.
The libraries, shtab and argparse-manpage, are asked here and nowhere else.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import shtab
from argparse_manpage.manpage import Manpage

from trainshed import __version__
from trainshed.cli.verbs import ALIASES, VERBS, Verb

FOLDER: Final = Path(__file__).parent.parent / "src/trainshed/cli/shell"
#: The file of each shell, as the shells look for it.
FILES: Final[Mapping[str, str]] = {
    "bash": "trainshed.bash",
    "zsh": "_trainshed",
    "fish": "trainshed.fish",
}
MAN_PAGE: Final = "trainshed.1"
_LIST_JOBS: Final = "trainshed jobs list --limit 100 --format 'value(displayName)' 2>/dev/null"
#: The functions that list the names of the newest jobs.  Other users have chosen them: bash would
#: run what is in ``$(...)``, in ``compgen -W`` and on the command line, so that it is offered plain
#: names alone; zsh and fish quote what they insert.
_PREAMBLES: Final[Mapping[str, str]] = {
    "bash": f"""\
_trainshed_jobs() {{
  local name
  {_LIST_JOBS} | while IFS= read -r name; do
    [[ $name == "$1"* && $name != -* && $name != *[!A-Za-z0-9_.:/@-]* ]] && echo "$name"
  done
}}""",
    "zsh": f'_trainshed_jobs() {{ compadd -- ${{(f)"$({_LIST_JOBS})"}} }}',
    "fish": "",
}
_JOBS: Final = {
    "bash": "_trainshed_jobs",
    "zsh": "_trainshed_jobs",
    "fish": f"({_LIST_JOBS})",
}
#: What is completed for an argument of a metavar.
_COMPLETED: Final[Mapping[str, Any]] = {
    "JOB": _JOBS,
    "FILE": shtab.FILE,
    "PATH": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}


def main() -> int:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def texts() -> Mapping[str, str]:
    """The text of each file, by its name."""
    scripts = {
        file: shtab.complete(tree(), shell, preamble=_PREAMBLES[shell])
        for shell, file in FILES.items()
    }
    pages = {**scripts, MAN_PAGE: man_page()}
    return {name: f"{text.rstrip()}\n" for name, text in pages.items()}


def tree() -> argparse.ArgumentParser:
    """One parser with a subparser for each word of each verb, as shtab reads it."""
    root = argparse.ArgumentParser(
        prog="trainshed", description="Runs AI Platform and Vertex AI training jobs."
    )
    root.add_argument("--version", action="store_true", help="Print the version")
    commands = _fill(root, [verb for verb in VERBS if not verb.hidden], 0)
    for alias, meant in ALIASES.items():
        if " " not in alias and alias not in commands.choices:
            commands.add_parser(alias, help=f"the same as trainshed {meant}", add_help=False)
    return root


def _fill(parser: argparse.ArgumentParser, verbs: Sequence[Verb], depth: int) -> Any:
    """Add a subparser for each next word of verbs that begin with the same words."""
    words = dict.fromkeys(verb.words[depth] for verb in verbs if len(verb.words) > depth)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for word in words:
        within = [verb for verb in verbs if verb.words[depth : depth + 1] == (word,)]
        own = [verb for verb in within if len(verb.words) == depth + 1]
        deeper = [verb for verb in within if len(verb.words) > depth + 1]
        text = own[0].summary if own else f"commands of {word}"
        node = commands.add_parser(word, help=text, description=text)
        for verb in own:
            _copy(verb.parser(), node, options_only=bool(deeper))
        if deeper:
            _fill(node, deeper, depth + 1)
    return commands


def _copy(
    source: argparse.ArgumentParser, target: argparse.ArgumentParser, *, options_only: bool
) -> None:
    """Take what help shows of a verb; of one with verbs below it only the flags are completed."""
    target.usage, target.description = source.usage, source.description
    for action in source._actions:  # noqa: SLF001  # argparse has no other way to its arguments
        is_flag = bool(action.option_strings)
        if action.help == argparse.SUPPRESS or action.dest == "help":
            continue
        if is_flag or not options_only:
            _complete(action)
            target._add_action(action)  # noqa: SLF001


def _complete(action: Any) -> None:
    if action.metavar in _COMPLETED and not hasattr(action, "complete"):
        action.complete = _COMPLETED[action.metavar]


def man_page() -> str:
    """The page of all verbs."""
    data = {
        "description": "run AI Platform and Vertex AI training jobs on machines you own",
        "date": __version__,  # a date would change the page from day to day
        "manual_title": "Trainshed",
        "manual_section": "1",
    }
    return str(Manpage(tree(), data, format="single-commands-section"))


if __name__ == "__main__":
    sys.exit(main())
