"""The same trainer twice, behind real links: its workers sum gradients in a ring, then reducers do.

    python compare.py                             4 workers, 4 reducers, links of 200 Mbit/s
    python compare.py --workers 2 --reducers 2    two of each, for which theory promises no gain
    python compare.py -- --epochs 3 --width 512   what follows -- is the trainer's

It needs root, for hosts with links of their own (hosts.py); without, it runs on loopback, where
reducers gain nothing.
"""

import argparse
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hosts import LOOPBACK, PAYLOAD, Host, ended, free_ports, places


def main() -> None:
    """Train twice and compare."""
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all that runs is ended
    count = args.workers + args.reducers
    with (
        tempfile.TemporaryDirectory() as name,
        places(count, args.mbit, loopback=args.loopback) as hosts,
    ):
        workers, reducer_hosts = hosts[: args.workers], hosts[args.workers :]
        print("\nthe workers sum in a ring (gloo):", flush=True)
        ring = trained(workers, args, Path(name, "ring"), {})
        print("\nreducers sum:", flush=True)
        ours = trained_with_reducers(workers, reducer_hosts, args, Path(name, "reducers"))
    tell(args, ring, ours, shaped=hosts[0].interface != LOOPBACK)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="compare a ring with reducers")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--reducers", type=int, default=4)
    parser.add_argument("--mbit", type=float, default=200.0, help="rate of every link")
    parser.add_argument("--loopback", action="store_true", help="no hosts, even as root")
    parser.add_argument("arguments", nargs="*", default=["--epochs", "2"], help="of the trainer")
    return parser.parse_args()


def trained_with_reducers(
    workers: Sequence[Host], reducer_hosts: Sequence[Host], args: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Train with a reducer on each of the other hosts; the trainer gets four variables more."""
    secret = {"TRAINSHED_REDUCTION_TOKEN": secrets.token_hex(32)}
    placed = list(zip(reducer_hosts, map(str, free_ports(len(reducer_hosts))), strict=True))
    addresses = [f"{host.address}:{port}" for host, port in placed]
    reducer = ["-m", "trainshed.reduction"]  # also known as trainshed-reducer
    reducers = [
        host.start(
            [*reducer, "--host", host.address, "--port", port, "--index", str(index)], secret
        )
        for index, (host, port) in enumerate(placed)
    ]
    settings = {
        "TRAINSHED_TORCH_BACKEND": "reduction",
        "TRAINSHED_REDUCERS": ",".join(addresses),
        "TRAINSHED_REDUCTION_ROUTE": "always",  # also where they are slower: this is to be seen
    }
    with ended(reducers):
        return trained(workers, args, folder, {**secret, **settings})


def trained(
    workers: Sequence[Host], args: argparse.Namespace, folder: Path, env: Mapping[str, str]
) -> dict[str, Any]:
    """Train with one replica a host; what rank 0 has written down."""
    job = {
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(free_ports(1)[0]),
        "WORLD_SIZE": str(len(workers)),
        "GLOO_SOCKET_IFNAME": workers[0].interface,
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # it warns of hosts that have no names
    }
    command = ["-m", "trainer.task", "--job-dir", str(folder), *args.arguments]
    replicas = [
        host.start(command, {**job, **env, "RANK": str(rank)}) for rank, host in enumerate(workers)
    ]
    with ended(replicas):
        if not succeed(replicas):
            raise SystemExit("the training has failed")
    report: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return report


def succeed(replicas: "Sequence[subprocess.Popen[bytes]]") -> bool:
    """Wait until all have ended, or one has failed."""
    while True:
        codes = [replica.poll() for replica in replicas]
        if any(codes) or None not in codes:
            return not any(codes)
        time.sleep(0.05)


def tell(
    args: argparse.Namespace, ring: Mapping[str, Any], ours: Mapping[str, Any], *, shaped: bool
) -> None:
    """Say what was gained, and what could be."""
    where = f"links of {args.mbit:g} Mbit/s" if shaped else "one host, by loopback"
    print(f"\n{args.workers} workers, {args.reducers} reducers, {where}")
    if shaped:
        least = ring["gradient_mb"] * 8 / args.mbit / PAYLOAD
        print(f"{ring['gradient_mb']:.1f} MB of gradients pass such a link in {least:.3f} s")
    for name, result in (("ring", ring), ("reducers", ours)):
        print(f"{name:9} {result['step_seconds']:7.3f} s a step  accuracy {result['accuracy']:.4f}")
    gain = ring["step_seconds"] / ours["step_seconds"]
    limit = f"the links alone would allow {possible(args.workers, args.reducers):.2f}"
    print(f"gain      {gain:7.2f} times; {limit if shaped else 'on one host none is promised'}")


def possible(workers: int, reducers: int) -> float:
    """How many times faster than a ring; where reducers are few, workers help to sum.

    A ring sends 2(N-1)/N of the gradient through every link, the best split over N workers and R
    reducers 2N(N-1)/(N^2+RN-2R) of it.
    """
    few = min(workers, reducers)
    return (workers**2 + few * workers - 2 * few) / workers**2


if __name__ == "__main__":
    main()
