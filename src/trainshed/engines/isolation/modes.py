"""The modes of isolation by name, for settings and for people."""

from typing import Final

AUTO: Final = "auto"
CONTAINER: Final = "container"
USERS: Final = "users"
SANDBOX: Final = "sandbox"
LANDLOCK: Final = "landlock"
NONE: Final = "none"

#: From the strongest to the weakest.
MODES: Final = (CONTAINER, USERS, SANDBOX, LANDLOCK, NONE)

#: The modes that filter system calls; container runtimes have filters of their own.
FILTERED: Final = (USERS, SANDBOX, LANDLOCK)
#: A value of ``seccomp`` in ``[isolation]``; the only other one is ``NONE``.
DEFAULT: Final = "default"
#: Families of system calls that no trainer needs (``isolation.seccomp`` has the calls).
NAMESPACES, MOUNTS, SOCKETS, TERMINALS = "namespaces", "mounts", "sockets", "terminals"
IO_URING, KEYS, USERFAULTFD, BPF, PERF = "io_uring", "keys", "userfaultfd", "bpf", "perf"
HANDLES, KERNEL, LEGACY = "handles", "kernel", "legacy"
CALL_FAMILIES: Final = (
    BPF, HANDLES, IO_URING, KERNEL, KEYS, LEGACY, MOUNTS, NAMESPACES, PERF, SOCKETS, TERMINALS,
    USERFAULTFD,
)  # fmt: skip

#: The default UIDs and GIDs for projects.  systemd's list of uids assigns them to no program, and
#: the range that ``useradd`` gives to users for their containers ends far below.
UIDS: Final = (1_900_000_000, 1_900_065_535)
#: The name of a project's user, as programs see it.
USER_NAME: Final = "trainshed"
#: The folder in which programs see the buckets of their project.
GCS: Final = "/gcs"


def at_least(weakest: str) -> tuple[str, ...]:
    """Return the mode ``weakest`` and all stronger modes."""
    return MODES[: MODES.index(weakest) + 1]
