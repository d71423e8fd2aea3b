"""By what means an engine ends what a killed supervisor has left, by name, for people."""

from typing import Final

#: The program's processes are in a namespace that ends with its first.
PID_NAMESPACE: Final = "pid namespace"
#: A process above each supervisor inherits what it leaves: it can be killed too.
SUBREAPER: Final = "second subreaper"

#: What a process can escape that means to.
WEAK: Final = frozenset({SUBREAPER})

_WHY: Final = "no cgroup is offered to the server; Delegate=yes in its unit offers one"


def described(means: str) -> str:
    """The means, and what would give a better one where it is weak."""
    return f"{means} (weak: {_WHY})" if means in WEAK else means
