"""``trainshed environments build``: builds a Python with the packages of a runtime version."""

import argparse
import os
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.terminal import note, print_result
from trainshed.storage.buckets import data_dir

EXAMPLE = """\
  trainshed environments build /srv/environments/runtime-2.11 --runtime 2.11 --write
  trainshed environments build /srv/environments/old --runtime 2.4 --python 3.8"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Makes a Python environment with the packages that an AI Platform runtime version "
        "had, in their current versions, and prints or writes the lines of config.toml that use it."
        "",
        example=EXAMPLE,
        usage=f"{prog} DIR --runtime VERSION [--python VERSION|PATH] [--write]",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="A new folder")
    add = flags.adder(parser)
    add("--runtime VERSION", "Such as 2.11", required=True)
    add(
        "--python VERSION|PATH",
        "Python to use, from PATH, uv, pyenv or conda; default: the newest one that the runtime's "
        "TensorFlow supports, or the nearest one on this machine",
    )
    add("--write", "Add the lines to the configuration file", action="store_true")
    add(
        "--config FILE",
        "The server's configuration file; default: config.toml in the data directory",
        type=Path,
    )
    add(
        "--data-dir DIR",
        "The server's data directory; default: TRAINSHED_DATA_DIR, else the user's",
    )
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Build the environment, and print how to use it."""
    args: argparse.Namespace = request.args
    from trainshed.config import FILE
    from trainshed.workbench.config_rows import add_rows, check_rows
    from trainshed.workbench.runtime_environments import build

    config = args.config or data_dir(args.data_dir, os.environ) / FILE
    if args.write:
        check_rows(config, args.directory.absolute().name, args.runtime)
    built = build(args.directory, args.runtime, args.python, note)
    for name in built.lacks:
        note(f"the environment lacks {name}")
    if args.write:
        add_rows(config, built.settings)
        note(f"these lines were added to {config}; a running server reads the file within seconds:")
    else:
        note(
            f"add these lines to {config}, or give --write; a running server reads the file again:"
        )
    document = {
        "name": built.name,
        "runtimeVersion": built.runtime,
        "python": str(built.python),
        "pythonVersion": built.content.python,
        "frameworks": dict(built.content.frameworks),
        "lacks": list(built.lacks),
        "settings": built.settings,
        "config": str(config),
        "written": args.write,
    }
    print_result(args.format, document, built.settings)
    return 0
