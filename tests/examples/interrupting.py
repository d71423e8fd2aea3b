"""Run an example's trainer as its replicas, and stop all of them at a random moment."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from examples.cluster import EXAMPLES, TIMEOUT_S
from trainshed.engines.processes.ports import free_runs

#: What the trainers exit with when they were told to stop and have saved.
TOLD_TO_STOP = 143
SAVED = "saved step "
POLL_S = 0.01


@dataclass(kw_only=True)
class World:
    """The replicas of one start of ``trainer.task``, on this machine."""

    example: str
    job_dir: Path
    args: Sequence[object] = ()
    size: int = 1
    env: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """What rank 0 has printed, in all starts together."""
        return self.job_dir / "log.txt"

    def __enter__(self) -> Self:
        """Start all replicas."""
        self.job_dir.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        self.before = len(self.log.read_text())
        (port,) = free_runs((1,))
        self.processes = []
        for rank in range(self.size):
            self.processes.append(self._start(rank, port))
        return self

    def __exit__(self, *_: object) -> None:
        """Leave none behind."""
        self.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def _start(self, rank: int, port: int) -> subprocess.Popen[bytes]:
        alone = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "AIP_CHECKPOINT_DIR"}
        env = {name: value for name, value in os.environ.items() if name not in alone} | self.env
        if self.size > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(self.size)}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, "-m", "trainer.task", "--job-dir", self.job_dir, *self.args]
        with (self.log if rank == 0 else self.job_dir / f"log-{rank}.txt").open("ab") as log:
            return subprocess.Popen(
                [str(word) for word in command],
                cwd=EXAMPLES / self.example,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=self.processes[0].pid if self.processes else 0,
            )

    def printed(self) -> str:
        """Give what rank 0 has printed since this start."""
        return self.log.read_text()[self.before :]

    def wait_for_saves(self, count: int) -> None:
        """Wait until so many checkpoints were saved since this start, or a replica has ended."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.printed().count(SAVED) < count:
            if any(process.poll() is not None for process in self.processes):
                return
            assert time.monotonic() < deadline, self.printed()
            time.sleep(POLL_S)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every replica that lives, to all at once: none sees another's end."""
        if any(process.poll() is None for process in self.processes):
            with suppress(ProcessLookupError):
                os.killpg(self.processes[0].pid, number)

    def wait(self) -> list[int]:
        """Give the exit codes of all replicas, when all have ended."""
        return [process.wait(TIMEOUT_S) for process in self.processes]


def undisturbed(world: World) -> str:
    """Run to the end; give what rank 0 printed."""
    with world:
        assert world.wait() == [0] * world.size, world.printed()
    return world.printed()


def interrupted(world: World, number: signal.Signals, chance: random.Random, way_s: float) -> None:
    """Send a signal to all replicas at a random moment, somewhere after the first or second save.

    ``way_s`` is about how long the way from save to save takes, in seconds.
    """
    ended = -signal.SIGKILL if number == signal.SIGKILL else TOLD_TO_STOP
    with world:
        world.wait_for_saves(chance.randint(1, 2))
        time.sleep(chance.uniform(0.0, way_s))
        world.signal(number)
        codes = world.wait()
    assert set(codes) == {ended}, (codes, world.printed())
