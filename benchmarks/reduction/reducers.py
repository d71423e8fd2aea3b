"""The reducers of a reduction benchmark: the same `trainshed-reducer` that a job has."""

import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.harness import Json
from benchmarks.reduction.shaped_network import Network

#: In a network of its own every host has this port free.
PORT: Final = 2222


@dataclass(frozen=True, kw_only=True)
class Reducers:
    """Reducer processes that serve one group."""

    processes: Sequence["subprocess.Popen[str]"]
    addresses: Sequence[tuple[str, int]]
    token: str

    def settings(self) -> Json:
        """Return the addresses and settings that a rank needs."""
        return {"reducers": list(self.addresses), "token": self.token}

    def peak_mb(self) -> float:
        """The largest peak of resident memory among them, MB of 10^6 bytes."""
        return max(_peak_mb(process.pid) for process in self.processes)


@contextmanager
def reducers(net: Network, hosts: Sequence[int], *, timeout_s: float = 60.0) -> Iterator[Reducers]:
    """Start a reducer on each of the hosts, and end them afterwards."""
    token = secrets.token_hex(32)
    ports = [PORT] * len(hosts) if net.has_own_ports else _free_ports(len(hosts))
    addresses = [(net.address(host), port) for host, port in zip(hosts, ports, strict=True)]
    processes: list[subprocess.Popen[str]] = []
    try:
        for index, (host, address) in enumerate(zip(hosts, addresses, strict=True)):
            flags = ["--index", str(index), "--timeout", str(timeout_s)]
            processes.append(_start(net, host, address, flags, token))
        for process in processes:
            _await_listening(process)
        yield Reducers(processes=processes, addresses=addresses, token=token)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def _start(
    net: Network, host: int, address: tuple[str, int], flags: Sequence[str], token: str
) -> "subprocess.Popen[str]":
    """Start one; the token goes through its environment, which is in no process list."""
    place = ["--host", address[0], "--port", str(address[1])]
    command = [sys.executable, "-m", "trainshed.reduction", *place, *flags]
    environ = {**os.environ, "TRAINSHED_REDUCTION_TOKEN": token}
    return net.start(host, command, env=environ, stdout=subprocess.PIPE, text=True)


def _await_listening(process: "subprocess.Popen[str]") -> None:
    assert process.stdout  # noqa: S101  # a pipe was asked for
    line = process.stdout.readline()
    if "listening" not in line:
        raise RuntimeError(f"a reducer did not start: {line or f'exit code {process.wait()}'}")


def _free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024 / 1e6
