"""Names of the means by which an engine ends the processes that a killed supervisor has left."""

from typing import Final

#: The program's processes are in a PID namespace, which ends with its first process.
PID_NAMESPACE: Final = "pid namespace"
#: A parent of each supervisor inherits its processes; the parent can be killed too.
SUBREAPER: Final = "second subreaper"

#: Means that a process can escape on purpose.
WEAK: Final = frozenset({SUBREAPER})

_WHY: Final = "no cgroup is offered to the server; Delegate=yes in its unit offers one"


def described(means: str) -> str:
    """Describe the means; for a weak one, add how to get a better one."""
    return f"{means} (weak: {_WHY})" if means in WEAK else means
