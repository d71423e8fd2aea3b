"""What the tensors of a GPU cost on their way to reducers and back: against gloo, alone, hidden.

Two ranks share the GPU and reach two reducers by loopback.  Both backends reduce the same tensors
in turns, and both copy them to the host and back.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from benchmarks.gpu.bench import Bench, Row, Unmeasured, median_ratio
from benchmarks.harness import ROOT
from benchmarks.reduction.reducers import Reducers, reducers
from benchmarks.reduction.shaped_network import Network

RANK: Final = "benchmarks.gpu.reduction_rank"
RANKS: Final = 2
STAGING_MIN: Final = 0.85
#: Two imports of torch, two contexts and a warm-up; what is measured takes less.
LEAST_S: Final = 40.0
MOST_S: Final = 150.0
#: Pairs by the size of a tensor in MB; buckets and pairs of staging; layers and turns of a step.
PLAN: Final = {
    "mb": 1 << 20,
    "exchange": {"1": 20, "16": 8, "64": 5},
    "staging": {"64": [6, 10], "1": [64, 10]},
    "overlap": {"width": 2048, "layers": 8, "turns": 5, "batch": 4096, "batch_max": 65536},
}
DRY_PLAN: Final = {
    "mb": 1 << 14,
    "exchange": {"1": 2, "16": 2, "64": 2},
    "staging": {"64": [2, 2], "1": [2, 2]},
    "overlap": {"width": 64, "layers": 2, "turns": 2, "batch": 8, "batch_max": 64},
}

Pairs = Sequence[tuple[float, float]]


def measure(bench: Bench) -> list[Row]:
    """Exchange, staging and overlap."""
    left = bench.seconds_left()
    if left < LEAST_S and not bench.dry:
        raise Unmeasured(f"{left:.0f} s are left, and it takes up to {LEAST_S:.0f}")
    net = Network(rate_mbit=None)
    with reducers(net, range(2)) as serving:
        timings = _run_ranks(bench, net, serving)
    return [
        *_exchange_rows(timings["exchange"]),
        *_staging_rows(timings["staging"]),
        *_overlap_rows(timings["overlap"]),
    ]


def _run_ranks(bench: Bench, net: Network, serving: Reducers) -> dict[str, Any]:
    """What rank 0 tells when all ranks have done what is planned."""
    env = {
        **os.environ,
        "TRAINSHED_REDUCERS": ",".join(f"{host}:{port}" for host, port in serving.addresses),
        "TRAINSHED_REDUCTION_TOKEN": serving.token,
        "TRAINSHED_REDUCTION_ROUTE": "always",
        "TRAINSHED_REDUCTION_LOCAL": "0",  # both are on one host, and shall reduce all the same
        "GLOO_SOCKET_IFNAME": net.interface,
        "OMP_NUM_THREADS": "1",
    }
    plan = json.dumps({**(DRY_PLAN if bench.dry else PLAN), "device": bench.device})
    store = str(bench.folder / "store")
    ranks = []
    try:
        for rank in range(RANKS):
            command = [sys.executable, "-m", RANK, str(rank), str(RANKS), store, plan]
            pipe = subprocess.PIPE if rank == 0 else None
            ranks.append(net.start(rank, command, env=env, cwd=ROOT, stdout=pipe, text=True))
        output, _ = ranks[0].communicate(timeout=max(LEAST_S, min(bench.seconds_left(), MOST_S)))
    except subprocess.TimeoutExpired:
        raise RuntimeError("the ranks took too long") from None
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    if ranks[0].returncode or not output.strip():
        raise RuntimeError(f"a rank ended with {ranks[0].returncode}; it has said why above")
    timings: dict[str, Any] = json.loads(output.splitlines()[-1])
    return timings


def _exchange_rows(timings: dict[str, Pairs]) -> Iterator[Row]:
    for mb, pairs in timings.items():
        yield _row(
            f"exchange of {mb} MB, gloo over reducers",
            median_ratio(pairs),
            "times",
            f"gloo's time over the reducers', median of {len(pairs)} pairs: two ranks on one GPU",
        )
        for place, how in enumerate(("gloo", "reducers")):
            milliseconds = 1000 * statistics.median(pair[place] for pair in pairs)
            yield _row(f"exchange of {mb} MB by {how}", milliseconds, "ms", "the slower rank")


def _staging_rows(timings: dict[str, dict[str, Any]]) -> Iterator[Row]:
    for mb, staging in timings.items():
        pairs, nbytes = staging["pairs"], staging["nbytes"]
        what = f"{staging['count']} tensors of {mb} MB to the host and back"
        row = _row(
            f"staging of {mb} MB, share of a plain copy",
            median_ratio(pairs),
            "of its bandwidth",
            f"the time of plain pinned copies over ours: {what}, median of {len(pairs)} pairs",
        )
        # what a call costs is most of the time of a small one
        yield {**row, "goal": STAGING_MIN if mb == max(timings, key=int) else None}
        for place, how in enumerate(("plain copies", "staging")):
            rate = statistics.median(2 * nbytes / pair[place] / 1e9 for pair in pairs)
            yield _row(f"{how} of {mb} MB", rate, "GB/s", f"bytes both ways, {what}")


def _overlap_rows(timings: dict[str, Any]) -> Iterator[Row]:
    """How much of the shorter of computing and exchanging a step hides."""
    compute, exchange, step = (
        statistics.median(timings[part]) for part in ("compute", "exchange", "step")
    )
    yield _row(
        "overlap of exchange and compute",
        (compute + exchange - step) / min(compute, exchange),
        "of the shorter",
        f"compute and exchange alone, less a DDP step, over the shorter of both; {timings['what']}",
    )
    for name, seconds in (("compute", compute), ("exchange", exchange), ("step", step)):
        yield _row(f"{name} of the overlap", 1000 * seconds, "ms", timings["what"])


def _row(name: str, value: float, unit: str, definition: str) -> Row:
    """A figure without a goal; of milliseconds less is better."""
    return Row(
        name=name,
        value=value,
        unit=unit,
        goal=None,
        better="less" if unit == "ms" else "more",
        of=definition,
    )
