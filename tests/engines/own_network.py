"""A network of a test's own: what it does to bridges and routes is nothing to the machine."""

import ctypes
import fcntl
import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest

#: From linux/sched.h, linux/sockios.h and linux/if.h.
_CLONE_NEWNET, _SIOCSIFFLAGS, _IFF_UP = 0x4000_0000, 0x8914, 1


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
