"""A reducer's settings: its command line and its job's environment.

Flags have priority.  CLUSTER_SPEC has the address of each replica of the job, and a reducer listens
only on its own address unless a flag names another one (docs/sources/reduction.md 6).
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed_trainer.cluster import read_cluster_position
from trainshed_trainer.sizes import bytes_of

PORT_MAX: Final = 65535

_EPILOG: Final = """\
The workers and the reducers of a job share a token of at least 32 characters: in a file that
TRAINSHED_REDUCTION_TOKEN_FILE names, or in TRAINSHED_REDUCTION_TOKEN.  Workers find their reducers
by TRAINSHED_REDUCERS.

example, one reducer of two processes on the machine 10.0.0.7:

  $ openssl rand -hex 32 > token
  $ TRAINSHED_REDUCTION_TOKEN_FILE=token trainshed-reducer --host 10.0.0.7 --port 2222 --procs 2

and in the environment of every worker, with the same token:

  TRAINSHED_REDUCERS=10.0.0.7:2222,10.0.0.7:2223

SIGTERM ends a reducer when its workers have left, SIGINT at once.
"""


class ReducerSetupError(Exception):
    """A reducer cannot start; the text has the reason and the remedy."""


@dataclass(frozen=True)
class ListenAddress:
    """The address of the first process of a reducer, and its index among those of the job."""

    host: str
    port: int
    index: int = 0


@dataclass(frozen=True)
class ReducerSettings:
    """The command line.  Sizes are bytes, times seconds; an absent option is None."""

    host: str | None = None
    port: int | None = None
    index: int | None = None
    procs: int = 1
    max_memory: int = 1 << 30
    timeout_s: float = 60.0
    idle_timeout_s: float = 3600.0
    """0: no limit."""

    def place(self, environ: Mapping[str, str]) -> ListenAddress:
        """Return the address to listen on.  Raises ReducerSetupError if none is set."""
        from_job = _read_address(environ)
        host = self.host or (from_job and from_job.host)
        port = from_job.port if from_job and self.port is None else self.port
        if not host or port is None:
            raise ReducerSetupError(
                "no address to listen on: give --host and --port, or run the reducer as a replica "
                "of a job (then CLUSTER_SPEC has the address)"
            )
        first = from_job.index * self.procs if from_job else 0
        return ListenAddress(
            host=host, port=port, index=first if self.index is None else self.index
        )


def settings_of(argv: Sequence[str] | None) -> ReducerSettings:
    """Parse the command line; ends the process with a usage message for an invalid one."""
    return ReducerSettings(**vars(_parser().parse_args(argv)))


def _read_address(environ: Mapping[str, str]) -> ListenAddress | None:
    """Return the address of this replica in CLUSTER_SPEC, and its index; None without one."""
    try:
        replica = read_cluster_position(environ)
    except ValueError as error:
        raise ReducerSetupError(str(error)) from None
    peers = replica.peers.get(replica.role, []) if replica else []
    if replica is None or not peers:
        return None
    host, _, port = peers[replica.index].rpartition(":")
    if not host or not port.isdigit():
        message = f"the address in CLUSTER_SPEC must be HOST:PORT, got {peers[replica.index]!r}"
        raise ReducerSetupError(message)
    return ListenAddress(host=host.strip("[]"), port=int(port), index=replica.index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainshed-reducer",
        description="Sums gradients for the workers of one job, as a part of its Reduction Server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    default = "default: the address that the job gives this replica"
    add("--host", help=f"the address to listen on; {default}")
    add("--port", type=_port, help=f"the port of the first process; {default}")
    add(
        "--index",
        type=_count,
        help="the position of the first process in TRAINSHED_REDUCERS, from 0",
    )
    add(
        "--procs",
        type=_positive,
        default=1,
        help="number of processes, on consecutive ports; one (the default) uses several cores, "
        "more help only if the reducer alone uses a link of over 10 Gbit/s",
    )
    add(
        "--max-memory",
        type=_size,
        default=1 << 30,
        metavar="BYTES",
        help="memory for the sums of one process, such as 512M (default 1G)",
    )
    add(
        "--timeout",
        type=_seconds,
        default=60.0,
        dest="timeout_s",
        metavar="SECONDS",
        help="time without data after which a worker counts as lost (default 60)",
    )
    add(
        "--idle-timeout",
        type=_seconds_or_never,
        default=3600.0,
        dest="idle_timeout_s",
        metavar="SECONDS",
        help="the reducer ends when no worker has used it for this time; 0: never (default 3600)",
    )
    return parser


def _port(text: str) -> int:
    port = _count(text)
    if not 0 < port <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"must be a port from 1 to {PORT_MAX}, got {text}")
    return port


def _positive(text: str) -> int:
    if _count(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def _size(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    seconds = _seconds_or_never(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return seconds


def _seconds_or_never(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, got {text!r}")
    return float(text)
