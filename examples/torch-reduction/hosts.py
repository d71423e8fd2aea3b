"""Hosts inside this machine: network namespaces on a switch, each behind a link of a known rate.

They need root, and ``ip`` and ``tc`` of iproute2.  Without them every host is this machine itself.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
LOOPBACK = "lo"
#: What each end of a link lets pass at once, and how long a packet may wait there.
QUEUE = "burst 128kb latency 20ms"
#: The part of a link's rate that carries what TCP carries.
PAYLOAD = 0.956


class Host:
    """A place where programs run."""

    def __init__(self, address: str, interface: str, namespace: int | None = None) -> None:
        """``namespace`` is a process whose network this host has; None is this machine's own."""
        self.address, self.interface = address, interface
        self.inside = [] if namespace is None else ["nsenter", f"--net=/proc/{namespace}/ns/net"]

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start a program of this Python here."""
        python = [*self.inside, sys.executable, *command]
        return subprocess.Popen(python, cwd=HERE, env={**os.environ, **env})  # noqa: S603  # ours

    def batch(self, program: str, *lines: str) -> None:
        """Let ``ip`` or ``tc`` carry out some lines here."""
        command, text = [*self.inside, program, "-batch", "-"], "\n".join(lines).encode()
        subprocess.run(command, input=text, check=True)  # noqa: S603  # the lines are below


@contextmanager
def places(count: int, mbit: float, *, loopback: bool) -> Iterator[list[Host]]:
    """Give so many hosts with links of their own where that can be, and else this machine."""
    may = os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "unshare", "nsenter")))
    with ExitStack() as stack:
        hosts = [Host("127.0.0.1", LOOPBACK)] * count
        if may and not loopback:
            with suppress(OSError, subprocess.CalledProcessError):
                hosts = stack.enter_context(links(count, mbit))
        yield hosts


@contextmanager
def links(count: int, mbit: float) -> Iterator[list[Host]]:
    """Connect hosts to a switch; both ends of every link let ``mbit`` Mbit/s pass."""
    shape = f"root tbf rate {mbit}mbit {QUEUE}"
    with ExitStack() as stack:
        switch = Host("", "", stack.enter_context(namespace()))
        switch.batch("ip", "link add br0 type bridge", "link set br0 up")
        hosts = []
        for number in range(count):
            pid, port = stack.enter_context(namespace()), f"port{number}"
            host = Host(f"10.77.0.{number + 1}", "eth0", pid)
            switch.batch("ip", f"link add {port} type veth peer name eth0 netns {pid}")
            switch.batch("ip", f"link set {port} master br0 up")
            switch.batch("tc", f"qdisc add dev {port} {shape}")
            host.batch("ip", "link set lo up", "link set eth0 up")
            host.batch("ip", f"addr add {host.address}/24 dev eth0 noprefixroute")
            host.batch("ip", f"route add 10.77.0.0/24 dev eth0 src {host.address} congctl cubic")
            host.batch("tc", f"qdisc add dev eth0 {shape}")
            hosts.append(host)
        yield hosts


@contextmanager
def namespace() -> Iterator[int]:
    """Give a process that holds a new network; it ends when this program does, however that is."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec cat"],  # noqa: S607  # wherever they are
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with holder:  # on the way out its input is closed, and cat ends
        if not holder.stdout or not holder.stdout.readline():
            raise OSError("this machine gives no network namespaces")
        yield holder.pid


@contextmanager
def ended(programs: "Sequence[subprocess.Popen[bytes]]") -> Iterator[None]:
    """End afterwards what still runs."""
    try:
        yield
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait()


def free_ports(count: int) -> list[int]:
    """Give ports that nobody has on this machine; in a new namespace they are free anyway."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in socks]
