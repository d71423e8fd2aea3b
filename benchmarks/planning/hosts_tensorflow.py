"""TensorFlow on hosts behind links: one alone, a probe of two, and all of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.reduction.shaped_network import Network, network

PROGRAM: Final = Path(__file__).with_name("hosts_tensorflow_rank.py")
PORT: Final = 2222
DONE_S_MAX: Final = 240.0
SAID: Final = "FOUND "


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The measured times, in seconds."""

    alone_s: Sequence[float]
    probe_s: Sequence[float]
    """Of an all-reduce of all gradients, between two."""
    steps_s: Sequence[float]
    gradient_bytes: float


def measured(hosts: int, mbit: float) -> Steps:
    """One after the other, on the same links.  Raises RuntimeError if a program fails."""
    with network(hosts, mbit) as net:
        alone = _ran(net, "alone", 1)
        probe = _ran(net, "probe", 2)
        steps = _ran(net, "steps", hosts)
    return Steps(
        alone_s=alone["seconds"],
        probe_s=probe["seconds"],
        steps_s=steps["seconds"],
        gradient_bytes=alone["bytes"],
    )


def _ran(net: Network, what: str, count: int) -> dict[str, Any]:
    """Run the program on this number of hosts; return the result of the first."""
    workers = [f"{net.address(host)}:{PORT}" for host in range(count)]
    programs = [_start(net, host, what, workers) for host in range(count)]
    deadline = time.monotonic() + DONE_S_MAX
    texts = [
        process.communicate(timeout=max(1.0, deadline - time.monotonic())) for process in programs
    ]
    for program, (_, errors) in zip(programs, texts, strict=True):
        if program.returncode:
            raise RuntimeError(f"{what}: {errors[-2000:]}")
    report_line = next(line for line in texts[0][0].splitlines() if line.startswith(SAID))
    report: dict[str, Any] = json.loads(report_line.removeprefix(SAID))
    return report


def _start(net: Network, host: int, what: str, workers: Sequence[str]) -> "subprocess.Popen[str]":
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    if len(workers) > 1:
        task = {"type": "worker", "index": host}
        env["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(workers)}, "task": task})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    return net.start(host, [sys.executable, str(PROGRAM), what], **pipes)
