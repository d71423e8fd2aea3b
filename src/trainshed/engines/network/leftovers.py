"""Counts the networks of attempts on this machine, for ``doctor``.

Supervisors hold the namespaces by descriptors, and are the parents of the processes that carry
packets out of them (slirp4netns).  The machine's own network should have no link with an address of
a job; such a link is a leftover of a supervisor.
"""

import ipaddress
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.network.rule import CIDR
from trainshed.engines.network.way_out import PROGRAM
from trainshed.engines.processes import tree

_NET: Final = "net:["
_ROUTES: Final = "/proc/net/route"


class JobNetworkCounts(NamedTuple):
    """The number of networks of attempts on this machine, of all servers."""

    namespaces: int = 0
    """The number of network namespaces that supervisors hold."""
    ways_out: int = 0
    """The number of processes that carry packets out of these namespaces."""
    left_over: tuple[int, ...] = ()
    """The pids of such processes whose supervisor has ended."""
    links: tuple[str, ...] = ()
    """Links of the machine's own network that have an address of a job's network."""


def count_job_networks() -> JobNetworkCounts:
    """Count the networks that exist now; skip processes that this user may not inspect."""
    held: set[str] = set()
    left_over = []
    ways_out = list(_list_ways_out())
    for pid, parent in ways_out:
        namespaces = _list_namespaces(parent)
        held |= namespaces or set()
        if namespaces is not None and not namespaces:
            left_over.append(pid)
    return JobNetworkCounts(len(held), len(ways_out), tuple(left_over), tuple(_list_links()))


def _list_ways_out() -> Iterator[tuple[int, int]]:
    """Yield (pid, pid of the parent) of each process that carries packets."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                program, *words = (folder / "cmdline").read_text(errors="replace").split("\0")
                if Path(program).name == PROGRAM and f"--cidr={CIDR}" in words:
                    yield int(folder.name), tree.parent_of(int(folder.name))


def _list_namespaces(pid: int) -> set[str] | None:
    """Return the network namespaces that a process has open; None if the user may not see them."""
    try:
        paths = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        return None
    except OSError:
        return set()
    targets = set()
    for path in paths:
        with suppress(OSError):
            targets.add(str(path.readlink()))
    return {target for target in targets if target.startswith(_NET)}


def _list_links() -> Iterator[str]:
    """Yield the links whose route leads to the range of jobs' networks."""
    job_range = ipaddress.ip_network(CIDR)
    with suppress(OSError):
        for line in tree.read(_ROUTES).splitlines()[1:]:
            link, destination, *_ = line.split()
            number = int.from_bytes(bytes.fromhex(destination)[::-1])
            if ipaddress.ip_address(number) in job_range:
                yield link
