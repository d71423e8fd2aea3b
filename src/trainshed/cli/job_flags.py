"""The flags that describe a job, shared by the verbs that submit, check and run jobs."""

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from trainshed.cli.flags import Parser
from trainshed.workbench.submit_flags import FLAGS

_SUBMIT: Final = "submit:"
_WORD: Final = "word:"

#: A flag with one value: name, metavar, help.
Word = tuple[str, str, str]

#: Flags of the worker pools of a custom job.
POOL_WORDS: Final[tuple[Word, ...]] = (
    ("display-name", "NAME", "Name of the job"),
    ("python-package-uris", "URI,...", "Packages of all pools that have a python-module"),
    ("args", "ARG,...", "Arguments of every pool"),
    ("command", "WORD,...", "Command of every container pool"),
)


def add_pool_flags(parser: Parser, more: Iterable[Word]) -> None:
    """``--config``, ``--worker-pool-spec``, and flags with one value: the pools' and more."""
    parser.add_argument("--config", metavar="FILE", help="CustomJobSpec or CustomJob; flags win")
    parser.add_argument(
        "--worker-pool-spec",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="A pool, in order; repeatable; empty skips a pool. Keys: machine-type, replica-count, "
        "accelerator-type, accelerator-count, container-image-uri, or executor-image-uri and "
        "python-module",
    )
    add_words(parser, (*POOL_WORDS, *more))


def add_words(parser: Parser, words: Iterable[Word]) -> None:
    """Add flags with one value."""
    for name, metavar, text in words:
        parser.add_argument(f"--{name}", dest=f"{_WORD}{name}", metavar=metavar, help=text)


def words_of(args: argparse.Namespace) -> dict[str, str]:
    """The flags with one value that were given, by name."""
    return _given(args, _WORD)


def add_cluster_flags(
    parser: argparse.ArgumentParser, title: str, *, without: Collection[str] = ()
) -> None:
    """Add an option for every submit flag that the verb does not define itself."""
    group = parser.add_argument_group(f"flags of jobs submit training: {title}")
    for flag in FLAGS.values():
        if flag.name not in without:
            group.add_argument(
                flag.option, dest=f"{_SUBMIT}{flag.name}", metavar=flag.metavar, help=flag.help
            )


def submit_flags_of(args: argparse.Namespace) -> dict[str, str]:
    """The submit flags that were given, by name, as text; local packages by their full path."""
    texts = _given(args, _SUBMIT)
    if "packages" in texts:  # they lie where the user stands, not where the replicas run
        texts["packages"] = ",".join(map(_resolve_path, texts["packages"].split(",")))
    return texts


def _given(args: argparse.Namespace, prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in vars(args).items()
        if name.startswith(prefix) and value is not None
    }


def _resolve_path(package: str) -> str:
    path = Path(package.strip()).expanduser()
    return package if "://" in package or not path.exists() else str(path.absolute())
