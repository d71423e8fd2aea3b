"""Configures the links, addresses and routes of a network namespace with rtnetlink(7) messages.

This module packs the messages itself: importing the package pyroute2 takes a tenth of a second and
megabytes, and the program ``ip`` takes two milliseconds for each call; a supervisor makes up to a
dozen calls while a job waits.
"""
# the supervisor of an attempt imports this, and must stay small

import errno
import os
import socket
import struct
from typing import Final

# from linux/netlink.h and linux/rtnetlink.h
_NEW_LINK, _GET_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 18, 20, 24
_REQUEST, _ACK, _EXCL, _CREATE = 1, 4, 0x200, 0x400
_ERROR: Final = 2
_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_LINK: Final = struct.Struct("=BxHiII")  # family, type, index, flags, changed flags
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix, flags, scope, index
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, to, from, tos, table, by, scope, type, flags
_UP: Final = 1
# attributes of links, addresses and routes
_IFNAME, _MTU, _MASTER, _LINKINFO, _NET_NS_FD = 3, 4, 10, 18, 28
_KIND, _DATA, _PEER = 1, 2, 1
_ADDRESS_ITSELF, _LOCAL = 1, 2
_DESTINATION, _OUT_LINK, _VIA = 1, 4, 5
_MAIN_TABLE, _STATIC, _SCOPE_LINK = 254, 4, 253
_UNICAST, _UNREACHABLE = 1, 7
#: The group of messages about IPv4 routes, as a bit.
_ROUTES: Final = 0x40
_ANSWER_BYTES_MAX: Final = 1 << 16
_WAIT_S_MAX: Final = 2.0


class Netlink:
    """A socket to the network namespace in which the calling thread has opened it.

    Each call raises OSError.
    """

    def __init__(self) -> None:
        """Open a socket; the kernel answers each message."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.settimeout(_WAIT_S_MAX)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket; the namespace stays as it is."""
        self._socket.close()

    def link_index(self, name: str) -> int:
        """Return the number of a link."""
        answer = self._call(
            f"the link {name}", _GET_LINK, _LINK.pack(0, 0, 0, 0, 0) + _encode_name(name)
        )
        return int(_LINK.unpack_from(answer, _HEADER.size)[2])

    def set_up(self, name: str) -> None:
        """Set a link up."""
        self._call(
            f"the link {name}", _NEW_LINK, _LINK.pack(0, 0, 0, _UP, _UP) + _encode_name(name)
        )

    def add_bridge(self, name: str, mtu: int) -> int:
        """Make a bridge that is up; return its number."""
        info = _encode_attribute(_LINKINFO, _encode_attribute(_KIND, b"bridge"))
        body = _LINK.pack(0, 0, 0, _UP, _UP) + _encode_name(name) + _encode_number(_MTU, mtu) + info
        self._call(f"the bridge {name}", _NEW_LINK, body, _CREATE | _EXCL)
        return self.link_index(name)

    def add_veth(self, name: str, bridge: int, peer: str, netns: int, mtu: int) -> None:
        """Make a pair of links: one is up and in a bridge, the other in the namespace ``netns``.

        ``bridge`` is the number of the bridge, ``netns`` a descriptor.
        """
        peer_data = _LINK.pack(0, 0, 0, 0, 0) + _encode_name(peer) + _encode_number(_MTU, mtu)
        peer_data += _encode_number(_NET_NS_FD, netns)
        data = _encode_attribute(_DATA, _encode_attribute(_PEER, peer_data))
        info = _encode_attribute(_LINKINFO, _encode_attribute(_KIND, b"veth") + data)
        body = _LINK.pack(0, 0, 0, _UP, _UP) + _encode_name(name) + _encode_number(_MTU, mtu)
        body += _encode_number(_MASTER, bridge) + info
        self._call(f"the link {name}", _NEW_LINK, body, _CREATE | _EXCL)

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Give a link an IPv4 address."""
        packed = socket.inet_aton(address)
        body = _ADDRESS.pack(socket.AF_INET, prefix, 0, 0, self.link_index(name))
        body += _encode_attribute(_ADDRESS_ITSELF, packed) + _encode_attribute(_LOCAL, packed)
        self._call(f"the address {address}", _NEW_ADDRESS, body, _CREATE | _EXCL)

    def add_route(self, network: str, prefix: int, *, via: str = "", link: str = "") -> None:
        """Route packets for a network to a gateway or a link; prefix 0 is the default route."""
        scope = 0 if via else _SCOPE_LINK
        body = _ROUTE.pack(socket.AF_INET, prefix, 0, 0, _MAIN_TABLE, _STATIC, scope, _UNICAST, 0)
        body += _encode_attribute(_DESTINATION, socket.inet_aton(network)) if prefix else b""
        body += _encode_attribute(_VIA, socket.inet_aton(via)) if via else b""
        body += _encode_number(_OUT_LINK, self.link_index(link)) if link else b""
        self._call(f"the route to {network}", _NEW_ROUTE, body, _CREATE | _EXCL)

    def refuse(self, network: str, prefix: int) -> None:
        """Make connections to a network fail with EHOSTUNREACH."""
        body = _ROUTE.pack(socket.AF_INET, prefix, 0, 0, _MAIN_TABLE, _STATIC, 0, _UNREACHABLE, 0)
        body += _encode_attribute(_DESTINATION, socket.inet_aton(network))
        self._call(f"the route to {network}", _NEW_ROUTE, body, _CREATE | _EXCL)

    def _call(self, what: str, kind: int, body: bytes, flags: int = 0) -> bytes:
        """Send a message and return the answer.  Raises an OSError that names ``what``."""
        self._sequence += 1
        is_query = kind == _GET_LINK  # the kernel answers with the link itself
        flags |= _REQUEST | (0 if is_query else _ACK)
        size = _HEADER.size + len(body)
        try:
            self._socket.send(_HEADER.pack(size, kind, flags, self._sequence, 0) + body)
            answer = self._socket.recv(_ANSWER_BYTES_MAX)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), what) from None
        if _HEADER.unpack_from(answer)[1] == _ERROR:
            number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
            if number:
                raise OSError(number, os.strerror(number), what)
        return answer


def open_route_monitor() -> socket.socket:
    """Open a socket that gets a message when routes of this thread's namespace change."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    monitor = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
    monitor.bind((0, _ROUTES))
    return monitor


def tells_default_route(data: bytes) -> bool:
    """Return whether a message of a route monitor reports a new default route."""
    while len(data) >= _HEADER.size + _ROUTE.size:
        size, kind, *_ = _HEADER.unpack_from(data)
        prefix, table = data[_HEADER.size + 1], data[_HEADER.size + 4]
        if kind == _NEW_ROUTE and (prefix, table) == (0, _MAIN_TABLE):
            return True
        data = data[size + (-size % 4) :]
    return False


def _encode_attribute(kind: int, data: bytes) -> bytes:
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + bytes(-size % 4)


def _encode_name(name: str) -> bytes:
    return _encode_attribute(_IFNAME, name.encode() + b"\0")


def _encode_number(kind: int, value: int) -> bytes:
    return _encode_attribute(kind, struct.pack("=I", value))
