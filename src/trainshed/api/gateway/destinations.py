"""Decides which destinations a job's tunnel may have: other machines, never this one.

The server connects on behalf of a job, so a tunnel to an address of this machine would give the
job the server's own access.  Resolvers accept many spellings of an address (``2130706433``,
``0x7f.1``, ``::ffff:7f00:1``): the check uses the resolved address, and the socket is connected
to exactly that address.
"""

import ipaddress
import re
import socket
import struct
from collections.abc import Callable
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: ``HOST:PORT`` of a CONNECT: host characters only, and no zone after an address.
_TARGET: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_PORT_MAX: Final = 65_535
#: Lengths of a name (RFC 1035): for longer ones or empty labels the resolver raises no OSError.
_NAME_CHARS_MAX: Final = 253
_LABEL_CHARS_MAX: Final = 63

#: Addresses of cloud platforms' metadata services that are not link-local.
_PLATFORMS: Final = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
#: IPv6 networks whose addresses contain an IPv4 address, and how many bits follow it.
_EMBEDDING: Final = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b:1::/48"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
#: Teredo addresses contain two addresses, one inverted; they are always refused.
_TEREDO: Final = ipaddress.IPv6Network("2001::/32")
_IPV4: Final = (1 << 32) - 1

#: From linux/netlink.h and linux/rtnetlink.h.
_RTM_NEWROUTE: Final = 24
_RTM_GETROUTE: Final = 26
_REQUEST: Final = 1
_RTA_DST: Final = 1
_RTN_UNICAST: Final = 1
_NO_ROUTE: Final = -1
_HEADER: Final = struct.Struct("=IHHII")
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ANSWER_BYTES_MAX: Final = 1 << 14
_WAIT_S: Final = 1.0

#: Returns why no tunnel leads to an address (empty where one may), given whether only public
#: addresses are allowed.
RefuseAddress = Callable[[Address, bool], str]

THIS_MACHINE: Final = (
    "leads to this machine, its local links or its cloud platform; no tunnel may lead there"
)
NOT_PUBLIC: Final = "has no public address, and the job has a network of its own"


def parse_target(text: str) -> tuple[str, int] | None:
    """Return the host and port of ``HOST:PORT``; None for any other text."""
    match = _TARGET.fullmatch(text)
    if match is None or not 0 < int(match[3]) <= _PORT_MAX:
        return None
    host = (match[1] or match[2]).lower().rstrip(".")
    return (host, int(match[3])) if _is_in_bounds(host) else None


def _is_in_bounds(host: str) -> bool:
    """Return whether a host and each of its labels are within the length limits."""
    labels = host.split(".")
    return len(host) <= _NAME_CHARS_MAX and all(
        0 < len(label) <= _LABEL_CHARS_MAX for label in labels
    )


def is_own_name(host: str) -> bool:
    """Return whether a name means this machine, without a look-up."""
    own_names = ("localhost", socket.gethostname().lower())
    return host in own_names or host.endswith((".localhost", ".localdomain"))


def refuse_address(address: Address, only_public: bool = False) -> str:  # noqa: FBT001, FBT002
    """Return why a tunnel may not lead to an address; empty if it may.  Raises OSError.

    ``only_public`` also refuses private networks, for callers that have a network of their own.
    """
    if not _is_elsewhere(address):
        return THIS_MACHINE
    for plain in _embedded_addresses(address):
        if plain in _PLATFORMS or not _is_of_a_machine(plain) or not _is_elsewhere(plain):
            return THIS_MACHINE
        if only_public and not plain.is_global:
            return NOT_PUBLIC
    return ""


def _embedded_addresses(address: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses that an IPv6 address embeds for translators and tunnels.

    Return the address itself if it embeds none.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    address = ipaddress.IPv6Address(int(address))  # without a zone
    embedded = tuple(
        ipaddress.IPv4Address(int(address) >> shift & _IPV4)
        for network, shift in _EMBEDDING
        if address in network
    )
    return embedded or (address,)


def _is_of_a_machine(address: Address) -> bool:
    """Return whether an address can belong to one other machine."""
    is_special = (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address.is_reserved
        or address in _TEREDO
        or getattr(address, "is_site_local", False)
    )
    in_this_network = isinstance(address, ipaddress.IPv4Address) and address.packed[0] == 0
    return not is_special and not in_this_network


def _is_elsewhere(address: Address) -> bool:
    """Return whether the kernel's route leads away from this machine; no packet is sent.

    Addresses of the machine's own interfaces have the route kind local or broadcast.
    Raises OSError if the kernel cannot be queried: no tunnel is opened then.
    """
    return _route_kind(address) in {_RTN_UNICAST, _NO_ROUTE}  # without a route, connecting fails


def _route_kind(address: Address) -> int:
    """Return the kind of the route to an address.  Raises OSError if the query fails."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
    packed = address.packed
    route = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    destination = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _RTA_DST) + packed
    length = _HEADER.size + len(route) + len(destination)
    header = _HEADER.pack(length, _RTM_GETROUTE, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_WAIT_S)
        kernel.sendto(header + route + destination, (0, 0))
        answer = kernel.recv(_ANSWER_BYTES_MAX)
    if _HEADER.unpack_from(answer)[1] != _RTM_NEWROUTE:
        return _NO_ROUTE
    return int(_ROUTE.unpack_from(answer, _HEADER.size)[7])
