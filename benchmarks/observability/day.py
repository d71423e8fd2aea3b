"""Writes the usage of a simulated attempt of 8 GPUs and 2 replicas, and prints what that needed.

    python -m benchmarks.observability.day MINUTES FOLDER

The process imports what a supervisor imports, and then samples every 10 s of simulated time.  The
figures vary as those of a training do, from one sample to the next.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.observability.memory import read_memory_mb

# as a supervisor without samples
from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.record.folder import AttemptFolder, read_file
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.engines.supervise.replicas import Gang
from trainshed.files.beneath import PathBeneath

BEFORE_MB = read_memory_mb()
from trainshed.engines.supervise.record.usage_file import UsageFile, read_packed  # noqa: E402
from trainshed.engines.supervise.watch.usage_lines import LineMaker, Samples  # noqa: E402
from trainshed.engines.supervise.watch.watch_usage import UsageWatch  # noqa: E402
from trainshed.model.usage import encode_lines, parse_progress  # noqa: E402

IMPORTED_MB = read_memory_mb() - BEFORE_MB
#: Imported for the memory that they need.
IMPORTED = (Gang, UsageWatch)
NOISE = random.Random(1)  # noqa: S311
UUIDS = [f"GPU-{NOISE.getrandbits(128):032x}" for _ in range(8)]
NAMES = ("workerpool0-0", "workerpool1-0")
EVERY_S = 10


def figures(second: int, task: str) -> GpuFigures:
    """Return the readings of a busy GPU of a replica."""
    return GpuFigures(
        use=NOISE.randint(880, 1000) / 1000,
        memory=7.123e10 + NOISE.randint(0, 64) * 2**20,
        power=NOISE.gauss(620, 35),
        temperature=NOISE.randint(61, 66),
        energy_j=1e6 + second * 620 + NOISE.random(),
        task=task,
    )


def usage(second: int) -> Usage:
    """Return the counters of a busy replica."""
    return Usage(
        cpu_ns=int((second * 7.9 + NOISE.random()) * 1e9),
        memory_bytes=int(NOISE.gauss(9e10, 1e9)),
        read_bytes=int(second * 2.1e8 + NOISE.random() * 1e7),
        written_bytes=int(second * 1.3e6 + NOISE.random() * 1e6),
        tasks=NOISE.randint(180, 190),
    )


def report(second: int) -> bytes:
    """Return what a program says of its progress."""
    rate = NOISE.gauss(9e4, 2e3)
    values = {"loss": 2 + NOISE.random(), "learning_rate": 3e-4, "tokens_per_s": rate}
    return json.dumps({"step": second * 2, "total": 500_000, **values}).encode()


def samples(second: int) -> Samples:
    """Return the samples of one time."""
    return Samples(
        second,
        1.7645e9 + second,
        usages={name: usage(second) for name in NAMES},
        progress={name: parse_progress(report(second)) for name in NAMES[:1]},
        gpus={uuid: figures(second, NAMES[number // 4]) for number, uuid in enumerate(UUIDS)},
    )


def main() -> None:
    """Write the usage, and print its size and the memory."""
    minutes, folder = int(sys.argv[1]), AttemptFolder(sys.argv[2])
    read_file(PathBeneath.of_file(__file__))  # as a supervisor reads its plan
    for second in range(100):  # what simulates needs memory too
        samples(second)
    before_mb = read_memory_mb()
    file, maker = UsageFile(folder), LineMaker(EVERY_S, samples(0))
    for second in range(EVERY_S, minutes * 60 + 1, EVERY_S):
        for line in maker.add(samples(second)):
            file.append(encode_lines(line), line.at)
    numbers = {
        "day_mb": IMPORTED_MB + read_memory_mb() - before_mb,
        "file_mb": sum(entry.stat().st_size for entry in Path(folder.path).iterdir()) / 1e6,
        "lines_mb": sum(map(len, read_lines(folder))) / 1e6,
    }
    print(json.dumps(numbers))


def read_lines(folder: AttemptFolder) -> Iterator[bytes]:
    """Yield all lines as they were written."""
    yield from read_packed(folder.packed_usage)
    yield from Path(folder.usage).read_bytes().splitlines()


if __name__ == "__main__":
    main()
