"""The options of sbatch that the configuration or a label may add to those of Trainshed.

Trainshed sets the size, the time, the files and the script of a job.  An option that would change
these is refused; an option in this table only says more about where and how the job runs.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

#: A value of an option; it cannot begin with a dash, and no shell reads it.
_TEXT: Final = r"[A-Za-z0-9_(\[][A-Za-z0-9_.,:;@%+=|&*/()\[\]-]*"
_COUNT: Final = r"[0-9]+"
#: The value of an option without a value.
_NONE: Final = ""
#: The accepted values of each option, as a pattern.
OPTIONS: Final[Mapping[str, str]] = {
    "acctg-freq": _TEXT,
    "contiguous": _NONE,
    "core-spec": _COUNT,
    "cpu-freq": _TEXT,
    "delay-boot": _COUNT,
    "exclusive": "(user|mcs|topo)?",
    "gpu-freq": _TEXT,
    "gres-flags": _TEXT,
    "hint": "compute_bound|memory_bound|multithread|nomultithread",
    "licenses": _TEXT,
    "mail-type": "[A-Za-z0-9_,]+",
    "mail-user": r"[A-Za-z0-9_.+-]+(@[A-Za-z0-9_.-]+)?",
    "mcs-label": _TEXT,
    "network": _TEXT,
    "oversubscribe": _NONE,
    "prefer": _TEXT,
    "profile": _TEXT,
    "segment": _COUNT,
    "spread-job": _NONE,
    "switches": r"[0-9]+(@[0-9:-]+)?",
    "thread-spec": _COUNT,
    "threads-per-core": _COUNT,
    "tmp": "[0-9]+[KMGT]?",
    "use-min-nodes": _NONE,
    "wckey": _TEXT,
}
#: The value with which a label sets an option that has no value.
YES: Final = "yes"


def explain_refusal(option: str) -> str:
    """Return what ``--NAME=VALUE`` or ``--NAME`` must be; empty: the option is accepted."""
    name, _, value = option.removeprefix("--").partition("=")
    if not option.startswith("--") or name not in OPTIONS:
        return f"--NAME or --NAME=VALUE, with a NAME of {', '.join(OPTIONS)}"
    if not re.fullmatch(OPTIONS[name], value):
        return f"--{name} with {describe_values(name)}"
    return ""


def describe_values(name: str) -> str:
    """Describe the accepted values of an option; in a label, ``yes`` stands for no value."""
    pattern = OPTIONS[name]
    if pattern == _NONE:
        return f"no value ({YES} in a label)"
    return "a value without spaces and quotes" if pattern == _TEXT else f"a value like {pattern}"


def option_of(name: str, text: str) -> str:
    """Return the option that a label ``name`` with the value ``text`` sets."""
    is_flag = text == YES and re.fullmatch(OPTIONS[name], "") is not None
    return f"--{name}" if is_flag else f"--{name}={text}"


def merge(configured: Sequence[str], wishes: Sequence[str]) -> tuple[str, ...]:
    """Return the options of the configuration and of the labels; a label wins for its option."""
    by_name = {option.partition("=")[0]: option for option in (*configured, *wishes)}
    return tuple(by_name.values())
