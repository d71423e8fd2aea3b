"""Finds the address at which containers with a network of their own reach this machine."""

import fcntl
import socket
import struct
from contextlib import suppress
from typing import Final

from trainshed.engines.container_runtime import DOCKER, PODMAN, Runtime

#: The interface of each runtime's default network on the machine.
_INTERFACES: Final = {DOCKER: "docker0", PODMAN: "podman0"}
#: From linux/sockios.h: reads the address of an interface, which follows 20 bytes of the answer.
_SIOCGIFADDR: Final = 0x8915
_ADDRESS: Final = slice(20, 24)


def bridge_address(runtime: Runtime | None) -> str | None:
    """Return the machine's address on the runtime's default network; None if there is none."""
    interface = _INTERFACES.get(runtime.name) if runtime else None
    if interface is None:
        return None
    request = struct.pack("256s", interface.encode())
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(answer[_ADDRESS])
    return None
