"""``trainshed environments build``: a Python with what a runtime version had."""

import argparse
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.terminal import answer, note

EXAMPLE = """\
  trainshed environments build /srv/environments/runtime-2.11 --runtime 2.11
  trainshed environments build /srv/environments/old --runtime 2.4 --python 3.8"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Makes a Python environment with the packages that an AI Platform runtime version "
        "had, in versions of today, and prints the lines of config.toml that use it.",
        example=EXAMPLE,
        usage=f"{prog} DIR --runtime VERSION [--python VERSION|PATH]",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="A new folder")
    parser.add_argument("--runtime", metavar="VERSION", required=True, help="Such as 2.11")
    parser.add_argument(
        "--python",
        metavar="VERSION|PATH",
        help="Python to use; default: the newest that its TensorFlow was built for",
    )
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Build it, and say how it is used."""
    args: argparse.Namespace = request.args
    from trainshed.workbench.runtime_environments import build  # noqa: PLC0415 - after --help

    built = build(args.directory, args.runtime, args.python, note)
    for name in built.lacks:
        note(f"it lacks {name}")
    document = {
        "name": built.name,
        "runtimeVersion": built.runtime,
        "python": str(built.python),
        "pythonVersion": built.content.python,
        "frameworks": dict(built.content.frameworks),
        "lacks": list(built.lacks),
        "settings": built.settings,
    }
    note("add these lines to config.toml, and start the server again:")
    answer(args, document, built.settings)
    return 0
