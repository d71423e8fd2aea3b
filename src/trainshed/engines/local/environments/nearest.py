"""The version of a distribution nearest to one that a Python cannot have (R25).

Old pins name versions that were never built for a newer Python.  The next one up is the nearest;
where there is none, the last one before.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from trainshed.engines.local.environments.install import Answer

#: Runs uv with these arguments.
Ask = Callable[[Sequence[str]], Answer]

_DRY_RUN: Final = ("pip", "install", "--dry-run", "--break-system-packages", "--no-deps")


def nearest(name: str, version: str, python: str, ask: Ask) -> str | None:
    """The version to take in place of one; itself if it can be had, None if there is none at all.

    ``version`` is of a pin, so ``2.8.*`` and ``2.8.0`` are versions here.
    """
    low = version.removesuffix(".*")
    tries = ((f"=={version}",), (f">={low}", "--resolution", "lowest-direct"), (f"<{low}",))
    for condition, *how in tries:
        answer = ask([*_DRY_RUN, "--reinstall", *how, "--python", python, f"{name}{condition}"])
        planned = re.search(r"^ \+ \S+?==(\S+)", answer.text, re.MULTILINE)
        if not answer.code and planned:
            return planned[1]
    return None
