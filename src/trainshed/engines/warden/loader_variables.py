"""Hides the variables of the dynamic loader from a warden, but not from its program.

An image or a job may set LD_PRELOAD or LD_AUDIT to a library that another Python cannot load.  The
program that starts the warden renames all ``LD_`` variables, and the warden renames them back.
"""

from collections.abc import MutableMapping
from typing import Final

SHOWN: Final = "LD_"
#: No name of a variable begins so, because shells accept no such name.
HIDDEN: Final = "~D_"


def show_variables(env: MutableMapping[str, str]) -> None:
    """Give hidden variables their own names again."""
    for name in [name for name in env if name.startswith(HIDDEN)]:
        env[SHOWN + name[len(HIDDEN) :]] = env.pop(name)
