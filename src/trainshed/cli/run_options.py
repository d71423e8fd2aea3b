"""The flags that both local runs have: this machine, what is printed, what is only planned."""

import argparse

from trainshed.storage.buckets import GsPaths


def add_run_flags(parser: argparse.ArgumentParser, *, dry_run: bool = True) -> None:
    """Flags of Trainshed's own."""
    group = parser.add_argument_group("this machine")
    group.add_argument(
        "--python",
        metavar="PATH",
        help="Interpreter of the replicas; default: TRAINSHED_PYTHON, else Trainshed's own",
    )
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        help="Where buckets lie; default: TRAINSHED_DATA_DIR, else the user's data folder",
    )
    group.add_argument(
        "--gs-paths",
        choices=[choice.value for choice in GsPaths],
        default=GsPaths.PATH.value,
        help="What replicas are told of gs:// directories: their folder here, or the URI",
    )
    if dry_run:
        group.add_argument(
            "--dry-run", action="store_true", help="Print the launch plan and start nothing"
        )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="Colour the prefixes of lines",
    )
