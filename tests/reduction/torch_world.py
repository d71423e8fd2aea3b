"""Worlds of real processes for the torch tests: reducers in this process, ranks in their own.

A world runs one program of ``torch_programs.py`` on every rank; a program prints what it found as
one line of JSON.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forked import Forked, ForkServer
from trainshed_trainer.reduction.reducer import Reducer

BACKEND = "TRAINSHED_TORCH_BACKEND"
PROGRAMS = Path(__file__).with_name("torch_programs.py")
#: A fork is quicker, but nobody has tried what CUDA makes of one.
ON_GPU = os.environ.get("TRAINSHED_GPU") == "real"
TOKEN = "0123456789abcdef0123456789abcdef"
#: Far more than any of them takes, on a machine that is ten times slower.
PATIENCE_S = 280
_FORKS = ForkServer("torch.distributed", "torch.nn.parallel", OMP_NUM_THREADS="1")


@contextlib.contextmanager
def reducers(count: int) -> Iterator[str]:
    """Addresses of so many reducers, as TRAINSHED_REDUCERS has them."""
    started = []
    with contextlib.ExitStack() as stack:
        for index in range(count):
            sock = socket.create_server(("127.0.0.1", 0))
            reducer = Reducer(sock, TOKEN.encode(), index=index)
            stack.callback(reducer.close)
            reducer.start()
            started.append(reducer)
        yield ",".join(f"{host}:{port}" for host, port in (reducer.address for reducer in started))


def environment(**variables: str) -> dict[str, str]:
    """What a rank is told: this process's environment without what steers us, and ``variables``."""
    steering = ("TRAINSHED_", "MASTER_", "CLUSTER_SPEC", "TF_CONFIG", "RANK", "WORLD_SIZE")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    return {
        **inherited,
        "TRAINSHED_REDUCTION_TOKEN": TOKEN,
        "TRAINSHED_REDUCTION_HOST": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }


def run_world(
    program: str,
    folder: Path,
    variables: Mapping[str, str],
    environments: Sequence[Mapping[str, str]],
    *,
    programs: Path = PROGRAMS,
) -> list[dict[str, Any]]:
    """Run a program on ``len(environments)`` ranks; what each found, by rank.

    ``environments`` has what a rank is told beyond ``variables``.  A rank that is to be killed
    finds nothing; any other that fails is this test's failure, with all that the ranks said.
    """
    store = folder / f"{program}.store"
    words = [
        [programs, program, rank, len(environments), store] for rank in range(len(environments))
    ]
    files = [folder / f"{program}-{rank}" for rank in range(len(environments))]
    # torch looks for its backend when it is imported, and the backend at what it is told then
    start = _executed if BACKEND in variables or ON_GPU else _forked
    running = []
    try:
        for argv, own, file in zip(words, environments, files, strict=True):
            env = environment(**variables, **own)
            running.append(start(argv, env, file.with_suffix(".out"), file.with_suffix(".log")))
        codes = [process.wait(timeout=PATIENCE_S) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait(PATIENCE_S)
    logs = "\n".join(
        f"rank {rank}:\n" + file.with_suffix(".log").read_text(errors="replace")
        for rank, file in enumerate(files)
    )
    assert all(code in (0, -9) for code in codes), f"{codes}\n{logs}"
    sys.stderr.write(logs)
    answers = [file.with_suffix(".out").read_text() for file in files]
    return [json.loads(answer.splitlines()[-1]) if answer.strip() else {} for answer in answers]


def _executed(
    words: Sequence[object], env: dict[str, str], out: Path, log: Path
) -> subprocess.Popen[bytes]:
    argv = [sys.executable, *map(str, words)]
    with out.open("wb") as stdout, log.open("wb") as stderr:
        return subprocess.Popen(argv, env=env, stdout=stdout, stderr=stderr)


def _forked(words: Sequence[object], env: dict[str, str], out: Path, log: Path) -> Forked:
    return _FORKS.start(words, env=env, output=out, errors=log)
