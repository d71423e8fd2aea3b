"""Takes the sockets that systemd passes to a service, and gives it sockets to keep.

It implements sd_listen_fds(3) and sd_notify(3), which need few environment variables and datagrams.
"""

import os
import socket
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final

_FIRST: Final = 3
_ROLE_END: Final = "."


def take_inherited(environ: MutableMapping[str, str]) -> list[tuple[str, socket.socket]]:
    """Return the sockets that systemd passed to this process, with their names.

    Removes the variables, which do not concern child processes.
    """
    is_ours = environ.pop("LISTEN_PID", "") == str(os.getpid())
    count = int(environ.pop("LISTEN_FDS", "0") or 0)
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    return list(_sockets(count, names)) if is_ours else []


def _sockets(count: int, names: list[str]) -> Iterator[tuple[str, socket.socket]]:
    for index, descriptor in enumerate(range(_FIRST, _FIRST + count)):
        os.set_inheritable(descriptor, False)
        yield names[index] if index < len(names) else "", socket.socket(fileno=descriptor)


def stored_name(role: str, listener: socket.socket) -> str:
    """Return the name under which systemd keeps a socket: its role and its port."""
    return f"{role}{_ROLE_END}{listener.getsockname()[1]}"


def role_of(name: str) -> str:
    """Return the role in a stored name, or in the ``FileDescriptorName=`` of a socket unit."""
    return name.partition(_ROLE_END)[0]


def notify(address: str, lines: Iterable[str], *sockets: socket.socket) -> None:
    """Send lines to systemd, at the address of ``NOTIFY_SOCKET``.  Raises OSError."""
    socket_address = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.connect(socket_address)
        descriptors = [listener.fileno() for listener in sockets]
        socket.send_fds(channel, ["\n".join(lines).encode()], descriptors, socket.MSG_NOSIGNAL)
