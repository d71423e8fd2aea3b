"""Detects strings that were given instead of lists.

Python clients convert such a string to a list of letters, as ``list("python train.py")`` does; the
job would always fail.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

#: Lists whose first element names a program.
COMMANDS: Final = frozenset({"command", "containerCommand"})

#: Lists whose first element names a program or a file, which a single letter never does.
NAMING: Final = COMMANDS | {"packageUris"}

#: Lists that may have single letters and digits on purpose.
ARGUMENTS: Final = frozenset({"args", "containerArgs"})

#: Characters that separate words of arguments; none of them alone is an argument.
_BETWEEN: Final = frozenset(" -=/.")

_LETTERS_MIN: Final = 3


def split_text(name: str, items: Sequence[Any]) -> str:
    """Return the string whose letters are the elements of a list; empty for a real list."""
    if name not in NAMING | ARGUMENTS or len(items) < 2:  # noqa: PLR2004 - one letter is no word
        return ""
    if not all(isinstance(item, str) and len(item) == 1 for item in items):
        return ""
    text = "".join(items)
    if name in NAMING:
        return text
    is_split = len(items) >= _LETTERS_MIN and not _BETWEEN.isdisjoint(items)
    return text if is_split else ""


def is_whole_line(name: str, item: Any) -> bool:
    """Whether a string that was given instead of a list is a command line or several files.

    Any other string is accepted as the only element of the list (decision 0044).
    """
    if not isinstance(item, str) or len(item.split()) < 2:  # noqa: PLR2004 - one word is no line
        return False
    return name in NAMING or (name in ARGUMENTS and _has_flag_apart(item.split()))


def _has_flag_apart(words: Sequence[str]) -> bool:
    """Whether words are a flag and its value, or two flags; ``--name=my job`` is one argument."""
    flags = [word for word in words if word.startswith("-")]
    return words[0] in flags and ("=" not in words[0] or len(flags) > 1)


_INTERPRETER: Final = re.compile(
    r"(?:/\S*/)?(?:python[\d.]*|ba?sh|torchrun|accelerate|pip[\d.]*)\s"
)


def is_command_line(name: str, items: Sequence[Any]) -> bool:
    """Whether a command's only element is a whole command line, not the name of a program."""
    is_one = name in COMMANDS and len(items) == 1 and isinstance(items[0], str)
    return is_one and (has_shell_words(items[0]) or bool(_INTERPRETER.match(items[0].lstrip())))


def has_shell_words(line: str) -> bool:
    """Whether only a shell can run a line: it changes folders, or joins commands."""
    words = line.split()
    return words[:1] == ["cd"] or not _SHELL_WORDS.isdisjoint(words)


_SHELL_WORDS: Final = frozenset({"&&", "||", "|", ";", ">", ">>"})

#: Lists of a parameter's values.
_VALUES: Final = frozenset({"values", "categoricalValues", "discreteValues"})


def is_comma_list(name: str, item: Any) -> bool:
    """Whether a parameter's values are one string with commas between them."""
    return name in _VALUES and isinstance(item, str) and "," in item
