"""The submit flags as options of a verb: built from the table that gives them their meaning."""

import argparse
from collections.abc import Collection
from pathlib import Path

from trainshed.workbench.submit_flags import FLAGS

_PREFIX = "submit:"


def add_cluster_flags(
    parser: argparse.ArgumentParser, title: str, *, without: Collection[str] = ()
) -> None:
    """Add an option for every submit flag that the verb does not define itself."""
    group = parser.add_argument_group(f"flags of jobs submit training: {title}")
    for flag in FLAGS.values():
        if flag.name not in without:
            group.add_argument(
                flag.option, dest=f"{_PREFIX}{flag.name}", metavar=flag.metavar, help=flag.help
            )


def given_flags(args: argparse.Namespace) -> dict[str, str]:
    """The submit flags that were given, by name, as text; local packages by their full path."""
    texts = {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX) and value is not None
    }
    if "packages" in texts:  # they lie where the user stands, not where the replicas run
        texts["packages"] = ",".join(map(_resolve_path, texts["packages"].split(",")))
    return texts


def _resolve_path(package: str) -> str:
    path = Path(package.strip()).expanduser()
    return package if "://" in package or not path.exists() else str(path.absolute())
