"""The flags that describe a job, for the verbs that submit, check and run jobs."""

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from trainshed.cli.flags import Parser, adder
from trainshed.service.jobs.submit_flags import FLAGS

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
    """Add ``--config``, ``--worker-pool-spec``, and the flags of ``POOL_WORDS`` and ``more``."""
    add = adder(parser)
    add("--config FILE", "File with a CustomJobSpec or CustomJob; flags override it")
    add(
        "--worker-pool-spec KEY=VALUE,...",
        "A worker pool; repeatable, in the order of the pools; an empty value skips a pool. "
        "Keys: machine-type, replica-count, "
        "accelerator-type, accelerator-count, container-image-uri, or executor-image-uri and "
        "python-module",
        action="append",
        default=[],
    )
    add_words(parser, (*POOL_WORDS, *more))


def add_words(parser: Parser, words: Iterable[Word]) -> None:
    """Add flags with one value."""
    for name, metavar, text in words:
        parser.add_argument(f"--{name}", dest=f"{_WORD}{name}", metavar=metavar, help=text)


def words_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the given flags with one value, by name."""
    return _select_given(args, _WORD)


def add_cluster_flags(
    parser: argparse.ArgumentParser, title: str, *, without: Collection[str] = ()
) -> None:
    """Add all flags of ``jobs submit training`` except ``without``."""
    group = parser.add_argument_group(f"flags of jobs submit training: {title}")
    for flag in FLAGS.values():
        if flag.name not in without:
            group.add_argument(
                flag.option, dest=f"{_SUBMIT}{flag.name}", metavar=flag.metavar, help=flag.help
            )


def submit_flags_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the given submit flags as text, by name; local packages with absolute paths."""
    texts = _select_given(args, _SUBMIT)
    if "packages" in texts:  # relative to the user's folder, not to that of the replicas
        texts["packages"] = ",".join(map(_resolve_path, texts["packages"].split(",")))
    return texts


def _select_given(args: argparse.Namespace, prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in vars(args).items()
        if name.startswith(prefix) and value is not None
    }


def _resolve_path(package: str) -> str:
    path = Path(package.strip()).expanduser()
    return package if "://" in package or not path.exists() else str(path.absolute())
