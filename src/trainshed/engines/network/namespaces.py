"""Makes the network namespaces of an attempt, and moves a process into one.

A forked child makes the namespaces, since a process without rights cannot return to a namespace
that it has left.  The child sends descriptors to the supervisor and ends.  The namespaces have no
names in ``/run/netns`` and no link to the machine's own network.  The kernel removes a namespace
after its last descriptor and process.

One namespace, the hub, has the connection to other networks (``way_out``).  Replicas share the hub,
or each has a namespace of its own that is linked to a bridge in the hub.  Programs have no
capability over these namespaces: they cannot remove the routes that refuse the networks in
``REFUSED``.
"""
# the supervisor of an attempt imports this, and must stay small

import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Final, NamedTuple

from trainshed.engines.isolation import linux
from trainshed.engines.network.netlink import Netlink, open_route_monitor
from trainshed.engines.network.rule import BRIDGE, PREFIX, REPLICA_NETWORKS, NetworkRule
from trainshed.engines.processes import tree
from trainshed.engines.processes.descriptors import receive

#: The networks that programs may not reach.  The machine's loopback: a socket that is bound to a
#: link could send packets to the loopback through slirp4netns.  Link-local addresses, at which
#: clouds give a machine's credentials to any process; and such addresses of Oracle, Azure and
#: Alibaba.
REFUSED: Final = (
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("192.0.0.192", 32),
    ("168.63.129.16", 32),
    ("100.100.100.200", 32),
)
MTU: Final = 65520

# from linux/sched.h
_NEW_UTS, _NEW_USER, _NEW_NET = 0x0400_0000, 0x1000_0000, 0x4000_0000
_NET: Final = "/proc/thread-self/ns/net"
_USER: Final = "/proc/thread-self/ns/user"
_BRIDGE_NAME, _LINK_NAME = "br0", "eth0"
_WAIT_S_MAX: Final = 10.0
_BACKLOG: Final = 1024
_MESSAGE_BYTES_MAX: Final = 4096
_DESCRIPTORS_MAX: Final = 250
_FAULT_CHARS_MAX: Final = 500
_HUB, _SPACE, _DONE, _FAULT = b"h", b"s", b"d", b"f"


class Namespace(NamedTuple):
    """Descriptors of one network namespace, and of the sockets that listen in it."""

    net: int
    listeners: tuple[int, ...] = ()
    """The listening sockets, in the order of ``NetworkRule.listeners``."""


class Hub(NamedTuple):
    """The descriptors of the hub that ``way_out`` needs."""

    user: int | None
    net: int
    routes: int


class Namespaces(NamedTuple):
    """The namespaces of an attempt."""

    user: int | None
    """The user namespace that owns the network namespaces; None if the supervisor is root."""
    hub: Namespace
    routes: int
    """A socket with messages about the routes of the hub (``netlink.open_route_monitor``)."""
    replicas: tuple[Namespace, ...] = ()
    """One for each replica, in their order; empty if all share the hub."""

    def of_replica(self, index: int) -> Namespace:
        """Return the namespace that a replica enters."""
        return self.replicas[index] if self.replicas else self.hub


def make_namespaces(
    rule: NetworkRule, *, owns_user: bool, on_hub: Callable[[Hub], object] = lambda _: None
) -> Namespaces:
    """Make the namespaces in a child, and wait at most ten seconds for each one.

    ``owns_user``: also make a user namespace, which a process that is not root needs.
    ``on_hub`` is called as soon as the hub exists, while the child makes the others.  Raises an
    OSError that names the failed step.
    """
    own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own_end:
        with other_end:
            pid = _fork(own_end, other_end, rule, owns_user=owns_user)
        own_end.settimeout(_WAIT_S_MAX)
        try:
            return _receive(own_end, on_hub)
        except TimeoutError:
            what = "network namespaces"
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), what) from None
        finally:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def enter_namespace(user: int | None, net: int) -> None:
    """Move the calling process, which has one thread, to a network namespace.  Raises OSError."""
    if user is not None:
        linux.check(linux.LIBC.setns(user, _NEW_USER), "the job's user namespace")
    linux.check(linux.LIBC.setns(net, _NEW_NET), "the job's network namespace")


def change_host_name(name: str) -> None:
    """Give the calling process, which has one thread, its own host name.  Raises OSError."""
    what, data = "a host name of its own", name.encode()
    linux.check(linux.LIBC.unshare(_NEW_UTS), what)
    linux.check(linux.LIBC.sethostname(data, len(data)), what)


# ---- the supervisor's side ----


def _receive(channel: socket.socket, on_hub: Callable[[Hub], object]) -> Namespaces:
    """Receive the child's descriptors: the hub, the other namespaces, the hub's listeners."""
    received: list[int] = []
    try:
        net, routes, *user = _receive_message(channel, received)[1]
        hub = Hub(user[0] if user else None, net, routes)
        on_hub(hub)
        replicas: list[Namespace] = []
        while True:
            kind, descriptors = _receive_message(channel, received)
            if kind == _DONE:
                listening = Namespace(hub.net, tuple(descriptors))
                return Namespaces(hub.user, listening, hub.routes, tuple(replicas))
            replicas.append(Namespace(descriptors[0], tuple(descriptors[1:])))
    except BaseException:
        for descriptor in received:
            os.close(descriptor)
        raise


def _receive_message(channel: socket.socket, received: list[int]) -> tuple[bytes, list[int]]:
    """Return the kind of a message and its descriptors, and add these to ``received``.

    Raises OSError, also for an error that the child reports.
    """
    data, descriptors = receive(channel, _MESSAGE_BYTES_MAX, _DESCRIPTORS_MAX)
    received += descriptors
    if not data:
        raise OSError(errno.ECHILD, "the child that makes them has ended", "network namespaces")
    if data[:1] == _FAULT:
        number, words, what = json.loads(data[1:])
        raise OSError(number, words, what)
    return data[:1], descriptors


# ---- the child ----


def _fork(
    own_end: socket.socket, channel: socket.socket, rule: NetworkRule, *, owns_user: bool
) -> int:
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            try:
                own_end.close()  # else the child would be its own reader after the parent's end
                tree.die_with_parent(parent)
                _make(channel, rule, owns_user=owns_user)
            except Exception as error:  # noqa: BLE001 - a fork must not return into its parent's stack
                channel.send(_FAULT + json.dumps(_fault_of(error)).encode())
            finally:
                os._exit(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _fault_of(error: Exception) -> tuple[int, str, str]:
    """Convert an error to the arguments of an OSError."""
    number, words = getattr(error, "errno", None), getattr(error, "strerror", None)
    what = getattr(error, "filename", None)
    words = (words or repr(error))[:_FAULT_CHARS_MAX]  # so that it fits in one message
    return number or errno.EIO, words, str(what or "network namespaces")


def _make(channel: socket.socket, rule: NetworkRule, *, owns_user: bool) -> None:
    _unshare(owns_user=owns_user)
    hub = _open(_NET)
    with closing(Netlink()) as netlink:
        _set_up_loopback(netlink, rule.addresses if rule.shared else ())
        if not rule.shared:
            _write("net/ipv4/conf/default/proxy_arp", "1")  # for the links that are added next
        with open_route_monitor() as routes:
            user = [_open(_USER)] if owns_user else []
            socket.send_fds(channel, [_HUB], [hub, routes.fileno(), *user])
        listeners = _listen(rule.listeners)
        if not rule.shared:
            bridge = _add_bridge(netlink)
            for index, address in enumerate(rule.addresses):
                space = _make_linked(netlink, bridge, f"r{index}", address)
                _send(channel, _SPACE, [space], _listen(rule.listeners))
                os.close(space)
        _send(channel, _DONE, [], listeners)


def _unshare(*, owns_user: bool) -> None:
    if not owns_user:
        linux.check(linux.LIBC.unshare(_NEW_NET), "a network namespace")
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.check(linux.LIBC.unshare(_NEW_USER | _NEW_NET), "a user and a network namespace")
    tree.write("/proc/thread-self/setgroups", "deny")
    tree.write("/proc/thread-self/uid_map", f"{uid} {uid} 1")
    tree.write("/proc/thread-self/gid_map", f"{gid} {gid} 1")


def _set_up_loopback(netlink: Netlink, addresses: Iterable[str]) -> None:
    """Set up the loopback of a namespace with addresses, refused networks and all ports."""
    with suppress(FileNotFoundError):  # a kernel without IPv6
        _write("net/ipv6/conf/default/disable_ipv6", "1")  # on links; the loopback still has ::1
    netlink.set_up("lo")
    for address in addresses:
        netlink.add_address("lo", address, 32)
    for network, prefix in REFUSED:
        netlink.refuse(network, prefix)
    _write("net/ipv4/ip_unprivileged_port_start", "0")


def _add_bridge(netlink: Netlink) -> int:
    """Add the bridge of the hub, and the routes between replicas and the way out."""
    bridge = netlink.add_bridge(_BRIDGE_NAME, MTU)
    netlink.add_address(_BRIDGE_NAME, BRIDGE, 32)
    for network, prefix in REPLICA_NETWORKS:
        netlink.add_route(network, prefix, link=_BRIDGE_NAME)
    _write("net/ipv4/ip_forward", "1")
    return bridge


def _make_linked(netlink: Netlink, bridge: int, name: str, address: str) -> int:
    """Make a namespace with a link to the bridge of the hub; this process stays in it."""
    linux.check(linux.LIBC.unshare(_NEW_NET), "a network namespace")
    space = _open(_NET)
    with closing(Netlink()) as inside:
        _set_up_loopback(inside, ())
        netlink.add_veth(name, bridge, _LINK_NAME, space, MTU)
        inside.add_address(_LINK_NAME, address, PREFIX)
        inside.set_up(_LINK_NAME)
        inside.add_route("0.0.0.0", 0, via=BRIDGE)  # noqa: S104 - the network of all addresses
    return space


def _listen(addresses: Iterable[tuple[str, int]]) -> list[socket.socket]:
    return [
        socket.create_server(address, backlog=_BACKLOG, reuse_port=False) for address in addresses
    ]


def _send(
    channel: socket.socket, kind: bytes, spaces: list[int], sockets: list[socket.socket]
) -> None:
    socket.send_fds(channel, [kind], [*spaces, *(listener.fileno() for listener in sockets)])
    for listener in sockets:
        listener.close()


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _write(name: str, text: str) -> None:
    tree.write(f"/proc/sys/{name}", text)
