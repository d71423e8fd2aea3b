"""Read the fenced blocks of a Markdown page, and the comment before each that says how it runs.

A directive is an HTML comment, which no reader sees:

    <!-- run: full, file=task.py -->       how to run the block below
    <!-- not run: needs a Slurm cluster --> why the block below cannot run
    <!-- setup: mkdir trainer -->          commands that the reader is assumed to have run
    <!-- replace: STUDY = $(cat study) --> what stands for a placeholder from here on

Without a directive `sh` and `console` blocks run as they stand.  Blocks of files (`yaml`, `python`,
`toml`, `ini`) need one, since only the page's author knows what the reader does with them.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

COMMANDS: Final = ("sh", "console")
FILES: Final = ("python", "yaml", "toml", "ini", "json", "csv", "dockerfile", "groovy")
#: Drawings, and files of other products.
NEVER_RUN: Final = ("text", "mermaid")
DIRECTIVE: Final = re.compile(r"<!-- *(run|not run|setup|replace)\b:?(.*)-->\s*", re.DOTALL)
#: The options of `run` and whether they take a value.
OPTIONS: Final = {
    "full": False,  # too long for `make test`
    "any-order": False,  # lines of the output come in any order
    "exit": True,  # the exit status of the block's last command
    "file": True,  # write the block into this file; a language of commands is not executed
    "python": True,  # the virtual environment whose python runs the block
    "settings": False,  # a server's config.toml: its reader accepts the block
}


class PageError(Exception):
    """A page that the runner cannot read: the message names the line."""


@dataclass(frozen=True)
class Block:
    """A fenced block, or the commands of a `setup` or `replace` comment."""

    line: int
    language: str
    text: str
    options: dict[str, str] = field(default_factory=dict)
    reason_not_to_run: str = ""


def read_blocks(path: Path) -> list[Block]:
    """Return a page's blocks in their order; raise PageError for the first that says too little."""
    blocks, directive = [], None
    for token in MarkdownIt("commonmark").parse(path.read_text("utf-8")):
        if token.type == "html_block" and (match := DIRECTIVE.fullmatch(token.content)):
            _refuse_unused(directive)
            directive = (token.map[0] + 1, match[1], match[2].strip())
            if directive[1] in ("setup", "replace"):
                blocks.append(Block(directive[0], *directive[1:]))
                directive = None
        elif token.type == "fence":
            blocks.append(_read_fence(token, directive))
            directive = None
        else:
            _refuse_unused(directive)
    _refuse_unused(directive)
    return blocks


def _refuse_unused(directive):
    if directive:
        raise PageError(f"line {directive[0]}: no block follows the comment '{directive[1]}'")


def _read_fence(token, directive):
    line, language = token.map[0] + 1, token.info.strip()
    _, verb, words = directive or (0, "", "")
    if language not in (*COMMANDS, *FILES, *NEVER_RUN):
        accepted = ", ".join((*COMMANDS, *FILES, *NEVER_RUN))
        raise PageError(
            f"line {line}: the language of a block must be one of {accepted}; got '{language}'"
        )
    if verb == "not run":
        if not words:
            raise PageError(f"line {line}: 'not run' needs a reason")
        return Block(line, language, token.content, reason_not_to_run=words)
    if language in NEVER_RUN:
        return Block(line, language, token.content, reason_not_to_run="no commands")
    options = _read_options(words, line)
    if language in FILES and not options.keys() & {"file", "python", "settings"}:
        raise PageError(
            f"line {line}: a block of {language} needs '<!-- run: file=NAME -->', "
            "'<!-- run: python=ENVIRONMENT -->' or '<!-- not run: REASON -->'"
        )
    return Block(line, language, token.content, options)


def _read_options(words, line):
    options = {}
    for word in filter(None, (word.strip() for word in words.split(","))):
        name, _, value = word.partition("=")
        if name not in OPTIONS or bool(value) != OPTIONS[name]:
            accepted = ", ".join(name + "=..." * takes for name, takes in OPTIONS.items())
            raise PageError(
                f"line {line}: an option of 'run' must be one of {accepted}; got '{word}'"
            )
        options[name] = value
    return options


@dataclass(frozen=True)
class Command:
    """A command of a console block and the output that the page shows; None: none is compared."""

    line: int
    text: str
    shown: str | None


def split_commands(block: Block) -> list[Command]:
    """Split a console block at its prompts; a block of another language is one command."""
    if block.language != "console":
        return [Command(block.line, block.text, None)]
    commands, is_continued = [], False
    for number, row in enumerate(block.text.splitlines(), start=block.line + 1):
        if is_continued:
            commands[-1][1].append(row)
        elif row.startswith(("$ ", "# ")):
            commands.append((number, [row[2:]], []))
        elif not commands:
            raise PageError(f"line {number}: a console block begins with '$ ' and a command")
        else:
            commands[-1][2].append(row)
            continue
        is_continued = row.endswith("\\")
    return [
        Command(line, "\n".join(text), "\n".join(output) if output else None)
        for line, text, output in commands
    ]
