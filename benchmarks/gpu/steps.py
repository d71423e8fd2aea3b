"""Steps a second of a trainer that is a job, over the same program bare; both live, in turns.

The server runs beside both: what its sampler costs is in ``sampling.py``.
"""

from collections.abc import Iterator

from benchmarks.gpu.bench import Bench, Row, in_turns, median_ratio
from benchmarks.gpu.jobs import Worker, bare_worker, gpu_server, worker_job

SHARE_MIN = 0.995
PAIRS, BLOCK_S = 14, 0.5
MODELS = ("resnet", "transformer")


def measure(bench: Bench) -> Iterator[Row]:
    """A figure for each model."""
    with (
        gpu_server(bench) as server,
        worker_job(server) as (_, ours),
        bare_worker(None if bench.dry else ours.visible) as bare,
    ):
        for model in MODELS:
            yield share(bench, model, ours, bare)


def share(bench: Bench, model: str, ours: Worker, bare: Worker) -> Row:
    """The median of many pairs of blocks; blocks are long enough for the clock."""
    arguments = words(bench, model)
    pairs, block_s = (2, 0.02) if bench.dry else (PAIRS, BLOCK_S)
    steps = block(bare, arguments, block_s)
    ours.seconds(1, arguments)
    timings = in_turns(
        lambda: bare.seconds(steps, arguments), lambda: ours.seconds(steps, arguments), pairs
    )
    per_s = [steps / seconds for seconds, _ in timings]
    bench.tell(f"{model}: {min(per_s):.1f} to {max(per_s):.1f} steps/s bare, {steps} a block")
    return Row(
        name=f"steps/s of a {model} as a job",
        value=median_ratio(timings),
        unit="of bare",
        goal=SHARE_MIN,
        better="more",
        of=f"steps/s as a job over the same program bare, bf16, median of {pairs} pairs in turns",
    )


#: Of a card that is as fast as any, a step of them is longer than what launches its kernels.
FILLING = {"resnet": 512, "transformer": 64}


def words(bench: Bench, model: str, batch: int = 0, device: str = "") -> list[str]:
    """What is asked of the example: the model as it is, or a tiny one.

    Without ``batch`` it is one that fills a card.
    """
    batch = batch or (64 if bench.dry else FILLING[model])
    sizes = ["--batch-size", str(batch)]
    if bench.dry:
        sizes = ["--batch-size", str(batch // 32), "--image-size", "8", "--width", "8"]
    where = ["--device", device or bench.device]
    return ["--model", model, "--precision", "bf16", *where, *sizes]


def block(worker: Worker, arguments: list[str], seconds: float) -> int:
    """How many steps take about so many seconds."""
    worker.seconds(1, arguments)
    return max(2, round(2 * seconds / worker.seconds(2, arguments)))
