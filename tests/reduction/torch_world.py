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

from trainshed_trainer.reduction.reducer import Reducer

PROGRAMS = Path(__file__).with_name("torch_programs.py")
TOKEN = "0123456789abcdef0123456789abcdef"
#: Far more than any of them takes, on a machine that is ten times slower.
PATIENCE_S = 280


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
        yield ",".join(f"{host}:{port}" for host, port in (each.address for each in started))


def environment(**variables: str) -> dict[str, str]:
    """What a rank is told: this process's environment without what steers us, and ``variables``."""
    steering = ("TRAINSHED_", "MASTER_", "CLUSTER_SPEC", "TF_CONFIG", "RANK", "WORLD_SIZE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    return {
        **kept,
        "TRAINSHED_REDUCTION_TOKEN": TOKEN,
        "TRAINSHED_REDUCTION_HOST": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }


def run_world(
    program: str,
    folder: Path,
    variables: Mapping[str, str],
    each: Sequence[Mapping[str, str]],
) -> list[dict[str, Any]]:
    """Run a program on ``len(each)`` ranks; what each found, by rank.

    ``each`` has what a rank is told beyond ``variables``.  A rank that is to be killed finds
    nothing; any other that fails is this test's failure, with all that the ranks said.
    """
    rendezvous = folder / f"{program}.store"
    running = []
    try:
        for rank, own in enumerate(each):
            command = [sys.executable, str(PROGRAMS), program, str(rank), str(len(each))]
            env = environment(**variables, **own)
            with (folder / f"{program}.{rank}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [*command, str(rendezvous)], env=env, stdout=subprocess.PIPE, stderr=log
                    )
                )
        answers = [process.communicate(timeout=PATIENCE_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    logs = "\n".join(
        f"rank {rank}:\n" + (folder / f"{program}.{rank}.log").read_text(errors="replace")
        for rank in range(len(each))
    )
    codes = [process.returncode for process in running]
    assert all(code in (0, -9) for code in codes), f"{codes}\n{logs}"
    sys.stderr.write(logs)
    return [json.loads(answer.splitlines()[-1]) if answer.strip() else {} for answer in answers]
