"""GPU against CPU as ``trainshed gpu-check`` says it, and the time of a step by batch size.

The times of one batch and of twice the batch say what a step costs anyway and what each example
adds: a plan that is calibrated needs both.
"""

import json
import subprocess
from collections.abc import Iterator
from itertools import product

from benchmarks.gpu.bench import Bench, Device, Row, Unmeasured
from benchmarks.gpu.jobs import EXAMPLE, WAIT_S_MAX, Worker, bare_worker
from benchmarks.gpu.steps import MODELS, block, words
from benchmarks.harness import TRAINSHED

BATCHES: dict[Device, tuple[int, int]] = {"cuda": (64, 128), "cpu": (16, 32)}
STEPS = 10
BLOCK_S = 1.0


def measure(bench: Bench) -> Iterator[Row]:
    """First the times of steps, which every machine has; then the command itself."""
    devices: list[Device] = ["cpu"] if bench.device == "cpu" else ["cuda", "cpu"]
    with bare_worker() as worker:
        for model, at in product(MODELS, devices):
            for batch in BATCHES["cuda" if bench.dry else at]:
                yield step(bench, worker, model, at, batch)
    for model in MODELS:
        yield from checked(bench, model)


def step(bench: Bench, worker: Worker, model: str, device: Device, batch: int) -> Row:
    """Measure the time of a step."""
    arguments = words(bench, model, batch, device)
    steps = block(worker, arguments, 0.02 if bench.dry else BLOCK_S)
    return Row(
        name=f"a step of a {model}, batch of {batch}, {device}",
        value=1000 * worker.seconds(steps, arguments) / steps,
        unit="ms",
        goal=None,
        better="less",
        of=f"mean of {steps} steps in bf16, after the warm-up",
    )


def checked(bench: Bench, model: str) -> list[Row]:
    """Return the figures that the command prints; without a GPU it prints no ratio."""
    command = [TRAINSHED, "gpu-check", "--package-path", ".", "--module-name", "steps"]
    arguments = words(bench, model, BATCHES["cuda"][0] if bench.dry else BATCHES["cpu"][0])
    arguments = (
        arguments[: arguments.index("--device")] + arguments[arguments.index("--device") + 2 :]
    )
    done = subprocess.run(
        [
            *command,
            "--format",
            "json",
            "--",
            *arguments,
            "--steps",
            "2" if bench.dry else str(STEPS),
        ],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    if done.returncode:
        raise Unmeasured(f"gpu-check failed: {done.stderr[-500:]}")
    verdict = json.loads(done.stdout)
    if verdict["speedup"] is None:
        return []
    return [
        Row(
            name=f"gpu-check of a {model}",
            value=verdict["speedup"],
            unit="of the CPU",
            goal=None,
            better="more",
            of=f"steps/s of {verdict['gpu']} over those of the CPU, both in bf16",
        )
    ]
