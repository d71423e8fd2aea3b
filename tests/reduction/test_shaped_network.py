"""The network of the benchmarks: links of a known rate that leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.reduction import shaped_network as shaped

REFUSED = shaped.why_not()
needs_links = pytest.mark.skipif(bool(REFUSED), reason=REFUSED or "never")

ROOT = Path(__file__).parents[2]
RATE_MBIT = 20.0
BURST = 128 << 10
#: Each says when it was over, by the clock that all processes of a machine share.
RECEIVES = """\
import socket, sys, time
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    for _ in range(int(sys.argv[2])):
        with server.accept()[0] as taken:
            while taken.recv(1 << 16):
                pass
print(time.monotonic(), flush=True)
"""
SENDS = """\
import socket, sys, time
print(time.monotonic(), flush=True)
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as line:
    print(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
    line.sendall(bytes(int(sys.argv[3])))
"""
TRIES = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
except OSError:
    sys.exit(1)
"""
BUILDS = """\
import os, time
from benchmarks.reduction.shaped_network import network
with network(2, 100) as net:
    child = net.start(1, ["sleep", "1000"])
    print(child.pid, *(os.fstat(each).st_ino for each in [*net.hosts, net.switch]), flush=True)
    time.sleep(1000)
"""


@pytest.fixture(name="net")
def a_network() -> Iterator["shaped.Network"]:
    with shaped.network(3, RATE_MBIT) as net:
        yield net


def start(net, host, code, *words):
    command = [sys.executable, "-c", code, *map(str, words)]
    return net.start(host, command, stdout=subprocess.PIPE, text=True)


def reaches(net, host: int, port: int, timeout_s: float) -> bool:
    command = [sys.executable, "-c", TRIES, net.address(host), str(port), str(timeout_s)]
    return net.start(0, command).wait() == 0


def sent_s(net, sizes: dict[int, int], receiver: int) -> float:
    """From the first byte that the hosts send until the receiver has the last."""
    takes = start(net, receiver, RECEIVES, net.address(receiver), len(sizes))
    port = int(takes.stdout.readline())
    senders = [start(net, h, SENDS, net.address(receiver), port, n) for h, n in sizes.items()]
    reports = [sender.communicate()[0].split() for sender in senders]
    assert {congestion for _, congestion in reports} == {"cubic"}
    return float(takes.communicate()[0]) - min(float(began) for began, _ in reports)


def within_band(measure: Callable[[], float], size: int, rate_mbit: float) -> bool:
    """Never faster than the link; not much slower, as soon as the machine is left alone once."""
    least_s = 8 * (size - BURST) / (rate_mbit * 1e6)
    for _ in range(8):
        elapsed_s = measure()
        assert elapsed_s >= least_s
        if elapsed_s < 2 * least_s:
            return True
    return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def held_by_anybody(inodes: set[int]) -> bool:
    names = {f"net:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        for link in [process / "ns" / "net", *list_folder(process / "fd")]:
            try:
                if str(link.readlink()) in names:
                    return True
            except OSError:
                continue
    return False


def list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def inodes_of(net) -> set[int]:
    return {os.fstat(fd).st_ino for fd in [*net.hosts, net.switch]}


@needs_links
def test_a_host_sends_at_its_rate_with_cubic(net):
    assert within_band(lambda: sent_s(net, {0: 1_000_000}, 1), 1_000_000, RATE_MBIT)


@needs_links
def test_a_host_receives_from_several_at_its_own_rate(net):
    both = {0: 500_000, 1: 500_000}
    assert within_band(lambda: sent_s(net, both, 2), 1_000_000, RATE_MBIT)


@needs_links
def test_the_rate_is_changed_in_place(net):
    net.reshape(RATE_MBIT / 4)
    assert within_band(lambda: sent_s(net, {0: 400_000}, 1), 400_000, RATE_MBIT / 4)
    assert net.goodput == pytest.approx(RATE_MBIT / 4 * 1e6 / 8 * 0.956)


@needs_links
def test_a_cable_is_pulled_and_plugged_in_again(net):
    takes = start(net, 1, RECEIVES, net.address(1), 1)
    port = int(takes.stdout.readline())
    net.cut(1)
    assert not reaches(net, 1, port, 0.5)
    net.mend(1)
    assert reaches(net, 1, port, 60)
    takes.communicate()


@needs_links
def test_two_networks_live_beside_each_other(net):
    with shaped.network(2, RATE_MBIT) as other:
        assert not inodes_of(net) & inodes_of(other)
        assert sent_s(other, {0: 1000}, 1) > 0
    assert sent_s(net, {0: 1000}, 1) > 0


@needs_links
def test_nothing_is_left_after_an_error():
    fault = "something went wrong in there"
    started = []

    def fail() -> None:
        with shaped.network(2, 100) as net:
            started.extend([net.start(0, ["sleep", "1000"]), inodes_of(net)])
            assert held_by_anybody(inodes_of(net))
            raise ValueError(fault)

    with pytest.raises(ValueError, match=fault):
        fail()
    child, inodes = started
    assert child.returncode == -signal.SIGKILL
    assert not held_by_anybody(inodes)


@needs_links
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(number):
    command = [sys.executable, "-c", BUILDS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as builder:
        pid, *inodes = map(int, builder.stdout.readline().split())
        assert alive(pid)
        builder.send_signal(number)
    assert builder.returncode == (128 + number if number != signal.SIGKILL else -number)
    wait_until(lambda: not alive(pid))
    assert not held_by_anybody(set(inodes))


def test_without_a_rate_all_hosts_are_loopback_and_programs_end_too():
    with shaped.network(3, None) as net:
        assert {net.address(host) for host in range(3)} == {"127.0.0.1"}
        child = net.start(2, ["sleep", "1000"])
        with pytest.raises(ValueError, match="loopback"):
            net.reshape(100)
    assert child.returncode == -signal.SIGKILL


def test_signals_are_handled_as_before_when_it_is_over():
    before = signal.getsignal(signal.SIGTERM)
    with shaped.network(1, None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
