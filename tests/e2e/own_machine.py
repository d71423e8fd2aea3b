"""A network that stands for the machine's: all that is in it, a test has started or made.

A server that is started in it gives its jobs networks of their own, as on any machine.
"""

import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from e2e.support import wait_until
from engines.own_network import held_networks, networks_in_use, own_network
from server_process import TRAINSHED

#: As support.serving takes it: the server is a child of the test, not of its fork server.
PROGRAM = (str(TRAINSHED),)
#: A socket that has ended and waits for late packets (include/net/tcp_states.h).
_TIME_WAIT = "06"
_TABLES = ("fib_trie", "route", "arp")


class OwnMachine:
    """Counts processes, namespaces, links, firewall rules and sockets of the test."""

    def __init__(self):
        """To be made in the network; what is there now is what may be there at the end."""
        self._network = _network_of(os.getpid(), "thread-self")
        self._spaces = set()
        self._before = self._settings()

    def kill_all(self):
        """SIGKILL to all processes at once: none of them sees the end of another.

        They are stopped first, as by a power cut.  Returns their pids.
        """
        stopped = {}
        while started := [process for process in self.processes() if process not in stopped]:
            for process in started:
                _send(process, signal.SIGSTOP)
                stopped[process] = _name(process)
        self.note_namespaces(stopped)
        for process in stopped:
            _send(process, signal.SIGKILL)
        psutil.wait_procs(stopped, timeout=60)
        return stopped

    def processes(self):
        """Those in this network, and all that descend from them."""
        own = os.getpid()
        roots = [
            process
            for process in psutil.process_iter()
            if process.pid != own and _network_of(process.pid) == self._network
        ]
        below = set(roots)
        for process in roots:
            with suppress(psutil.Error):
                below.update(process.children(recursive=True))
        return below

    def note_namespaces(self, processes):
        """Remember the networks that processes are in or have open: they are to be gone."""
        for process in processes:
            held = held_networks(process.pid)
            self._spaces |= {space for space in held if space.name != self._network}

    def check_nothing_is_left(self):
        """No process, namespace, link, address, route, rule, mount or socket."""
        wait_until(lambda: not self.processes(), lambda: f"left behind: {self.processes()}")
        wait_until(lambda: not self.namespaces(), lambda: f"left behind: {self.namespaces()}")
        settings = self._settings()
        assert {name: (text, settings[name]) for name, text in self._before.items()} == {
            name: (text, text) for name, text in self._before.items()
        }
        assert self.sockets() == []

    def run(self, argv):
        """Run a command here; what ``subprocess.run`` returns of it."""
        return subprocess.run(argv, check=False, capture_output=True, text=True)

    def namespaces(self):
        """Networks of jobs that a process of this machine still holds, or that have a name."""
        mounts = Path("/proc/thread-self/mountinfo").read_text()
        named = {space for space in self._spaces if f" {space.name} " in mounts}
        return named | networks_in_use(self._spaces)

    def sockets(self):
        """The rows of sockets of this network that live."""
        rows = []
        for table in ("tcp", "tcp6", "udp", "udp6", "raw", "unix", "packet"):
            lines = Path(f"/proc/thread-self/net/{table}").read_text().splitlines()[1:]
            rows += [f"{table} {line}" for line in lines if line.split()[3] != _TIME_WAIT]
        return rows

    def _settings(self):
        """Links, addresses, routes and firewall rules."""
        return {
            "links": socket.if_nameindex(),
            "rules": _firewall_rules(),
            "routes of IPv6": _ipv6_routes(),
            **{name: Path("/proc/thread-self/net", name).read_text() for name in _TABLES},
        }


@contextmanager
def own_machine():
    """Have this thread, and all that it starts, in a network of the test's."""
    with own_network():
        yield OwnMachine()


def _network_of(pid, place=None):
    with suppress(OSError):
        return str(Path(f"/proc/{place or pid}/ns/net").readlink())
    return ""


def _ipv6_routes():
    """(destination, prefix, link), without the counters of their use."""
    lines = Path("/proc/thread-self/net/ipv6_route").read_text().splitlines()
    return {(words[0], words[1], words[-1]) for words in map(str.split, lines)}


def _firewall_rules():
    """What nftables lists; programs that are not installed have made none."""
    with suppress(FileNotFoundError):
        argv = ["nft", "list", "ruleset"]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return ""


def _name(process):
    with suppress(psutil.Error):
        return process.name()
    return ""


def _send(process, signum):
    with suppress(psutil.Error):
        process.send_signal(signum)
