"""The command of the process that carries an attempt's packets out of its hub: slirp4netns.

It translates them into connections of its own, as any program of the machine makes them: no
forwarding, firewall rule or link of the machine changes.  Not pasta: that of Debian 12 gives up
root's rights before it can enter a namespace of root's.  Not a pair of links with rules of
nftables: they would have to be removed after a crash.
"""
# the supervisor of an attempt imports this, and must stay small

import os
from typing import Final

from trainshed.engines.isolation import linux
from trainshed.engines.isolation.mounts import leave_namespace
from trainshed.engines.network.namespaces import MTU
from trainshed.engines.network.rule import CIDR

PROGRAM: Final = "slirp4netns"
#: None of the job's variables says where it is.
_PLACES: Final = ("/usr/bin", "/usr/local/bin", "/bin")
_TAP: Final = "tap0"
#: What it opens to make that link.
TUN: Final = "/dev/net/tun"
#: Its link is there after 3 ms, and it reads packets after 10.
START_S_MAX: Final = 10.0
#: Why it cannot be started.
NOT_INSTALLED: Final = f"{PROGRAM} is not installed (apt install {PROGRAM})"
NO_TUN: Final = f"{TUN} cannot be opened by the user of the server, as {PROGRAM} must"


def find_program() -> str:
    """The path of slirp4netns; empty where it is not installed."""
    paths = (f"{place}/{PROGRAM}" for place in _PLACES)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def way_out_command(
    program: str, user: int | None, hub: int, exits: int, ready: int | None = None
) -> tuple[str, ...]:
    """The command for a hub; all are descriptors that it inherits.

    It ends when the other end of ``exits`` is closed.  First it adds a link and routes, from which
    on packets wait for it; then it prepares itself, and writes a byte to ``ready``.  Since it reads
    packets of the job it gives up most system calls, and as root all files and capabilities; its
    own sandbox cannot be had in a user namespace without a user 0.
    """
    return (
        *(program, "--configure", f"--mtu={MTU}", f"--cidr={CIDR}", "--disable-host-loopback"),
        *("--enable-seccomp", "--netns-type=path"),
        *(("--enable-sandbox",) if user is None else (f"--userns-path=/proc/self/fd/{user}",)),
        *((f"--ready-fd={ready}",) if ready is not None else ()),
        *(f"--exit-fd={exits}", f"/proc/self/fd/{hub}", _TAP),
    )


def leave_mounts(user: int | None) -> None:
    """Give this process mounts of its own before it becomes slirp4netns.  Raises OSError.

    As root slirp4netns unmounts all in its sandbox (1.2.0), after it has made "/" private and no
    mount below it: what lies on a shared mount would be unmounted on the machine as well, such as
    the networks of podman in ``/run/netns``.  With a ``user`` namespace it has no sandbox.
    """
    if user is None:
        leave_namespace(linux.LIBC)
