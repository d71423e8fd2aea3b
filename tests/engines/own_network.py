"""A network of a test's own: what it does to bridges and routes is nothing to the machine."""

import ctypes
import fcntl
import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

#: From linux/sched.h, linux/sockios.h and linux/if.h.
_CLONE_NEWNET, _SIOCSIFFLAGS, _IFF_UP = 0x4000_0000, 0x8914, 1
#: From asm-generic/socket.h: a number that the kernel gives to one network and never again.
NETNS_COOKIE = 71


@contextmanager
def own_network():
    """Have this thread, and all that it starts, in a network with a loopback and no way out.

    Needs root; skips where the kernel refuses it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        if libc.unshare(_CLONE_NEWNET) != 0:
            pytest.skip(f"no network of one's own: {os.strerror(ctypes.get_errno())}")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))
            yield
        finally:
            assert libc.setns(before.fileno(), _CLONE_NEWNET) == 0


class NetworkId(NamedTuple):
    """One network namespace; the number in its name is given to another when it has gone."""

    name: str
    cookie: int


def held_networks(pid):
    """Those in which a process is, or that it has open."""
    return {NetworkId(name, cookie) for name, path in _paths(pid) if (cookie := _cookie(path))}


def networks_in_use(networks):
    """Those of some networks that any process of the machine still holds."""
    names, in_use = {network.name for network in networks}, set()
    for pid in (path.name for path in Path("/proc").iterdir() if path.name.isdecimal()):
        for name, path in _paths(pid):
            if name in names:
                in_use.add(NetworkId(name, _cookie(path)))
    return in_use & networks


def _paths(pid):
    """(name, path) of each network of a process."""
    with suppress(OSError):
        for path in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(OSError):
                name = str(path.readlink())
                if name.startswith("net:"):
                    yield name, path


def _cookie(path):
    """Its number; 0 where it has gone meanwhile."""

    def look():
        with path.open("rb") as network:
            assert ctypes.CDLL(None).setns(network.fileno(), _CLONE_NEWNET) == 0
        with socket.socket() as inside:
            number = inside.getsockopt(socket.SOL_SOCKET, NETNS_COOKIE, 8)
        return int.from_bytes(number, "little")

    with suppress(OSError), ThreadPoolExecutor(1) as thread:  # it ends in that network
        return thread.submit(look).result()
    return 0
