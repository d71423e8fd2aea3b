"""Hosts on a switch, each behind a link of a known rate, inside this one machine.

Every host and the switch is a network namespace that only a file descriptor of this process holds:
there are no names that two runs could share, and the kernel removes all of it when the process
ends, however it ends.  Both ends of a link are shaped, so that a host sends and receives at the
rate.  Without a rate there are no namespaces, and every host is this machine's loopback.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

#: What a link of Ethernet carries of TCP's payload (docs/sources/reduction.md).
PAYLOAD: Final = 0.956
#: The queue of every shaped end (docs/sources/reduction.md 8).
BURST: Final = "128kb"
LATENCY_MS: Final = 20.0
NETWORK: Final = "10.77.0.0/16"
PROGRAMS: Final = ("ip", "tc", "nsenter", "setpriv")
#: Become the program, unless the parent has died: before setpriv, that was no reason to end.
UNLESS_ORPHANED: Final = '[ "$PPID" = "$0" ] && exec "$@"'
CLONE_NEWNET: Final = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(kw_only=True)
class Network:
    """The hosts 0, 1, ... and what runs on them; made by `network`."""

    rate_mbit: float | None
    latency_ms: float = LATENCY_MS
    switch: int = -1
    hosts: list[int] = field(default_factory=list)
    children: list[subprocess.Popen[Any]] = field(default_factory=list)

    @property
    def interface(self) -> str:
        """Return the name of the link inside a host."""
        return "lo" if self.rate_mbit is None else "eth0"

    @property
    def has_own_ports(self) -> bool:
        """Whether every host has an address of its own, with all ports."""
        return self.rate_mbit is not None

    @property
    def goodput(self) -> float:
        """Return the bytes per second that a link carries for TCP; infinite if it has no rate."""
        return float("inf") if self.rate_mbit is None else PAYLOAD * self.rate_mbit * 1e6 / 8

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return "127.0.0.1" if self.rate_mbit is None else f"10.77.{host // 250}.{host % 250 + 1}"

    def enter(self, host: int) -> None:
        """Move the calling thread, and all that it starts from now on, to a host."""
        if self.rate_mbit is not None and _libc.setns(self.hosts[host], CLONE_NEWNET):
            raise _system_error("setns")

    def start(self, host: int, command: Sequence[str], **more: Any) -> "subprocess.Popen[Any]":
        """Start a program on a host; it ends with the network, or with this thread.

        The process id is the program's own: nothing on the way to it forks.
        """
        mortal = ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", UNLESS_ORPHANED]
        mortal += [str(os.getpid()), *command]
        child = subprocess.Popen([*self._inside(host), *mortal], **more)
        self.children.append(child)
        return child

    def reshape(self, rate_mbit: float) -> None:
        """Change the rate of every link, in place."""
        if self.rate_mbit is None:
            raise ValueError("loopback has no rate that could be changed")
        self.rate_mbit = rate_mbit
        for host in range(len(self.hosts)):
            self._batch(host, "tc", [self._shaped("eth0", "change")])
        switch = [self._shaped(_port(host), "change") for host in range(len(self.hosts))]
        self._batch(None, "tc", switch)

    def cut(self, host: int) -> None:
        """Disconnect a host at the switch: no packet passes, and no program gets an error."""
        self._batch(None, "ip", [f"link set {_port(host)} down"])

    def mend(self, host: int) -> None:
        """Connect a host again."""
        self._batch(None, "ip", [f"link set {_port(host)} up"])

    def _inside(self, host: int | None) -> list[str]:
        if self.rate_mbit is None:
            return []
        namespace = self.switch if host is None else self.hosts[host]
        return ["nsenter", f"--net={path_of(namespace)}", "--"]

    def _batch(self, host: int | None, program: str, lines: Sequence[str]) -> None:
        """Run lines of ip or tc in a host's namespace, or in the switch's.

        Raises:
            RuntimeError: one of them failed; the text is the program's own.

        """
        done = subprocess.run(
            [*self._inside(host), program, "-batch", "-"],
            input="\n".join(lines),
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} said: {done.stderr.strip()} ({'; '.join(lines)})")

    def build(self, count: int) -> None:
        """Make the switch, the hosts, and the shaped links between them."""
        self.switch = _namespace()
        self.hosts += [_namespace() for _ in range(count)]
        lines = ["link add br0 type bridge", "link set br0 up"]
        for host, namespace in enumerate(self.hosts):
            port = _port(host)
            peer = f"peer name eth0 netns {path_of(namespace)}"
            lines += [f"link add {port} type veth {peer}", f"link set {port} master br0 up"]
        self._batch(None, "ip", lines)
        ports = [self._shaped(_port(host), "add") for host in range(count)]
        self._batch(None, "tc", ports)
        for host in range(count):
            self._connect(host)

    def _connect(self, host: int) -> None:
        """A host's own end: an address, and a route that uses cubic.

        Cubic belongs to the route, since a namespace that is not the first may not choose it by a
        sysctl (docs/sources/reduction.md 2).
        """
        address = self.address(host)
        lines = [
            "link set lo up",
            "link set eth0 up",
            f"addr add {address}/16 dev eth0 noprefixroute",
            f"route add {NETWORK} dev eth0 src {address} congctl cubic",
        ]
        self._batch(host, "ip", lines)
        self._batch(host, "tc", [self._shaped("eth0", "add")])

    def _shaped(self, device: str, verb: str) -> str:
        rate = f"rate {round((self.rate_mbit or 0) * 1e6)}bit burst {BURST}"
        return f"qdisc {verb} dev {device} root tbf {rate} latency {self.latency_ms:g}ms"

    def end_children(self) -> None:
        """End what was started; safe to call again."""
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait()
        self.children = []

    def close(self) -> None:
        """End what was started, and let go of the namespaces; safe to call again."""
        self.end_children()
        for namespace in [*self.hosts, self.switch]:
            if namespace >= 0:
                os.close(namespace)
        self.hosts, self.switch = [], -1


@contextmanager
def network(
    hosts: int, rate_mbit: float | None, *, latency_ms: float = LATENCY_MS
) -> Iterator[Network]:
    """So many hosts on one switch, whose links have a rate; None for loopback.

    ``latency_ms`` is how long a packet may wait in a queue before it is dropped.

    Raises:
        OSError, RuntimeError: this machine does not allow it; `why_not` asks before.

    """
    net = Network(rate_mbit=rate_mbit, latency_ms=latency_ms)
    with ends_on_signals():
        try:
            if rate_mbit is not None:
                net.build(hosts)
            yield net
        finally:
            net.close()


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGINT, so that every ``finally`` block runs."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, leave) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def why_not() -> str:
    """Return why this machine cannot have shaped links; empty if it can."""
    if os.geteuid():
        return "shaped links need root"
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        return f"shaped links need {', '.join(missing)}"
    try:
        with network(1, 100):
            return ""
    except (OSError, RuntimeError) as fault:
        return f"shaped links are refused here: {fault}"


def _namespace() -> int:
    """A new network namespace, as the file descriptor that keeps it.

    Made in a thread of its own, since the thread that asks for one has moved into it.
    """
    outcomes: list[int | OSError] = []

    def make() -> None:
        if _libc.unshare(CLONE_NEWNET):
            outcomes.append(_system_error("unshare"))
        else:
            outcomes.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(outcomes[0], OSError):
        raise outcomes[0]
    return outcomes[0]


def _system_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def path_of(namespace: int) -> str:
    """Return a path of a descriptor, which other processes can open while this one lives."""
    return f"/proc/{os.getpid()}/fd/{namespace}"


def _port(host: int) -> str:
    """Return the name of a host's link at the switch."""
    return f"port{host}"
