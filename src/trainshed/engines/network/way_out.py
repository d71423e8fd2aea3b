"""The command of the process that carries an attempt's packets out of its hub: slirp4netns.

slirp4netns makes its own ordinary connections for these packets, so no forwarding, firewall rule or
link of the machine changes.  Pasta was rejected, because in Debian 12 it gives up root's rights
before it can enter a namespace of root's.  A pair of links with nftables rules was
rejected too, because they would have to be removed after a crash.
"""
# the supervisor of an attempt imports this, and must stay small

import os
from typing import Final

from trainshed.engines.isolation import linux
from trainshed.engines.isolation.mounts import leave_namespace
from trainshed.engines.network.namespaces import MTU
from trainshed.engines.network.rule import CIDR

PROGRAM: Final = "slirp4netns"
#: The folders of the program; a PATH of the job does not change them.
_PLACES: Final = ("/usr/bin", "/usr/local/bin", "/bin")
_TAP: Final = "tap0"
#: The device that slirp4netns opens to make the link.
TUN: Final = "/dev/net/tun"
#: Normally the link exists after 3 ms, and slirp4netns reads packets after 10 ms.
START_S_MAX: Final = 10.0
#: Reasons why slirp4netns does not start.
NOT_INSTALLED: Final = f"{PROGRAM} is not installed (apt install {PROGRAM})"
NO_TUN: Final = f"{PROGRAM} cannot open {TUN} as the server's user; let that user read and write it"


def find_program() -> str:
    """Return the path of slirp4netns; empty if it is not installed."""
    paths = (f"{folder}/{PROGRAM}" for folder in _PLACES)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def way_out_command(
    program: str, user: int | None, hub: int, exits: int, ready: int | None = None
) -> tuple[str, ...]:
    """Compose the command for a hub; the integers are descriptors that the process inherits.

    The process ends when the other end of ``exits`` is closed.  It first adds a link and routes;
    from then on, packets wait.  Then it prepares itself, and writes a byte to ``ready``.
    Since the process reads packets of the job, it gives up most system calls and, as root, all
    files and capabilities.  Its own sandbox does not work in a user namespace without a user 0.
    """
    return (
        *(program, "--configure", f"--mtu={MTU}", f"--cidr={CIDR}", "--disable-host-loopback"),
        *("--enable-seccomp", "--netns-type=path"),
        *(("--enable-sandbox",) if user is None else (f"--userns-path=/proc/self/fd/{user}",)),
        *((f"--ready-fd={ready}",) if ready is not None else ()),
        *(f"--exit-fd={exits}", f"/proc/self/fd/{hub}", _TAP),
    )


def leave_mounts(user: int | None) -> None:
    """Give this process its own mount namespace before it becomes slirp4netns.  Raises OSError.

    As root slirp4netns (1.2.0) unmounts everything in its sandbox, after it has made only "/"
    private: mounts on a shared mount, such as podman's networks in ``/run/netns``, would be
    unmounted on the machine as well.  With a ``user`` namespace it has no sandbox.
    """
    if user is None:
        leave_namespace(linux.LIBC)
