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
#: What ``seccomp`` of ``[isolation]`` may be, besides ``NONE``.
DEFAULT: Final = "default"
#: Families of system calls that no trainer needs (``isolation.seccomp`` has the calls).
NAMESPACES, MOUNTS, SOCKETS, TERMINALS = "namespaces", "mounts", "sockets", "terminals"
IO_URING, KEYS, USERFAULTFD, BPF, PERF = "io_uring", "keys", "userfaultfd", "bpf", "perf"
HANDLES, KERNEL, LEGACY = "handles", "kernel", "legacy"
CALL_FAMILIES: Final = (
    BPF, HANDLES, IO_URING, KERNEL, KEYS, LEGACY, MOUNTS, NAMESPACES, PERF, SOCKETS, TERMINALS,
    USERFAULTFD,
)  # fmt: skip

#: The numbers of users and groups for projects, where nothing else is configured.  systemd's list
#: of uids has them as nobody's; what ``useradd`` gives to people for containers ends far below.
UIDS: Final = (1_900_000_000, 1_900_065_535)
#: What such a user is called for programs.
USER_NAME: Final = "trainshed"


def at_least(weakest: str) -> tuple[str, ...]:
    """The modes that are as strong as this one."""
    return MODES[: MODES.index(weakest) + 1]
