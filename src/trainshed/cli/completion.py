"""Prints the completion scripts and the man page that ``scripts/gen_completion.py`` wrote."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from trainshed.cli import flags
from trainshed.cli.terminal import print_result

FOLDER: Final = Path(__file__).parent / "shell"
#: The file of each shell.
SCRIPTS: Final = {"bash": "trainshed.bash", "zsh": "_trainshed", "fish": "trainshed.fish"}
MAN_PAGE: Final = FOLDER / "trainshed.1"

_COMPLETION_EXAMPLE = """\
  trainshed completion bash
  source <(trainshed completion bash)       # in ~/.bashrc
  eval "$(trainshed completion zsh)"        # in ~/.zshrc, after compinit
  source (trainshed completion fish | psub)  # in ~/.config/fish/config.fish"""


def parser(prog: str) -> flags.Parser:
    """Return the parser of ``completion`` or ``man``."""
    is_man = prog.endswith(" man")
    parser = flags.Parser(
        prog,
        summary="Shows the manual page of all commands: on a terminal with man, else as its source."
        if is_man
        else "Prints the script with which a shell completes commands and flags.",
        example=f"  {prog}" if is_man else _COMPLETION_EXAMPLE,
        usage=f"{prog} [flags]" if is_man else f"{prog} {{bash,zsh,fish}} [flags]",
    )
    parser.set_defaults(is_man=is_man)
    if not is_man:
        parser.add_argument("shell", choices=tuple(SCRIPTS), help="Your shell")
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the text, or show the page with man."""
    args = request.args
    pager = shutil.which("man") if args.is_man and sys.stdout.isatty() else None
    if pager and args.format == "text":
        os.execv(pager, [pager, "-l", str(MAN_PAGE)])  # noqa: S606  # the machine's own man
    file = MAN_PAGE if args.is_man else FOLDER / SCRIPTS[args.shell]
    text = file.read_text(encoding="utf-8")
    print_result(args.format, {"file": str(file), "text": text}, text.rstrip("\n"))
    return 0
