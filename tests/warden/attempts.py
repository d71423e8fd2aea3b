"""Attempts on other machines, all of which are this one: steps are commands that start wardens."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from trainshed.engines.base import ReplicaShape
from trainshed.engines.processes import tree
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.spec import StepRule
from trainshed.engines.warden import archive, compose, marks
from trainshed.engines.warden.archive_words import archive_words
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.log_line import LogLine, decode
from trainshed.model.roles import Role

DEADLINE_S = 60.0
#: Of these tests in this process alone: what is left is known by it.
KEY = AttemptKey(4711_0000_0000 + os.getpid(), 1)

#: Starts one warden a rank and waits for all, as the command of a cluster does.
STEP = """
import os, signal, subprocess, sys
python, archive, first, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
running = [
    subprocess.Popen(
        [python, "-I", "-S", archive, "task", "--first", first, "--rank-variable", "RANK_HERE"],
        env={**os.environ, "RANK_HERE": str(rank)},
        start_new_session=True,
    )
    for rank in range(count)
]
def pass_on(signum, frame):
    for each in running:
        each.send_signal(signum)
signal.signal(signal.SIGTERM, pass_on)
sys.exit(max([each.wait() for each in running]))
"""


@cache
def archived(folder: str) -> str:
    """The archive, as nodes have it."""
    bundle = archive.build()
    path = Path(folder) / bundle.name
    path.write_bytes(bundle.data)
    return str(path)


def step(archive_path: str, first: int, tasks: int, python: str = sys.executable) -> StepRule:
    return StepRule(
        argv=(sys.executable, "-c", STEP, python, archive_path, str(first), str(tasks)),
        first=first,
        tasks=tasks,
    )


def replica(
    code: str, role: Role = Role.PRIMARY, index: int = 0, env: Mapping[str, str] = {}, **more
) -> ReplicaPlan:
    return ReplicaPlan(
        role=role,
        index=index,
        task_name=f"{role.value}-{index}",
        argv=(sys.executable, "-c", code),
        env=env,
        **more,
    )


def workers(code: str, count: int, **more) -> tuple[ReplicaPlan, ...]:
    """A primary and its workers, all of one program."""
    first = replica(code, **more)
    return (first, *(replica(code, Role.WORKER, i, **more) for i in range(count - 1)))


@dataclass
class Attempt:
    """One that a launcher runs."""

    folder: AttemptFolder
    launcher: subprocess.Popen
    history: AttemptRecords = field(default_factory=AttemptRecords)

    def records(self) -> AttemptRecords:
        self.history.read(self.folder.records)
        return self.history

    def until(self, is_so: Callable[[], object], what: str = "it is so"):
        end = time.monotonic() + DEADLINE_S
        while not (answer := is_so()):
            assert time.monotonic() < end, f"waited for: {what}; {self.words()}"
            time.sleep(0.02)
        return answer

    def ended(self):
        ended = self.until(lambda: self.records().ended, "the end")
        assert self.launcher.wait(DEADLINE_S) == self.status_after(ended)
        return ended

    def status_after(self, ended) -> int:
        """What the launcher ends with, which Slurm counts the job by."""
        return ended.outcome.exit_code

    def words(self) -> str:
        path = Path(self.folder.words)
        output = path.read_text() if path.exists() else ""
        return f"{self.records()}\n{self.lines()}\n{output}"

    def lines(self, task: str | None = None) -> list[LogLine]:
        lines = []
        log = Path(self.folder.log)
        for segment in sorted(log.iterdir()) if log.is_dir() else ():
            lines += [decode(line) for line in segment.read_bytes().splitlines()]
        return [line for line in lines if task in (None, line.task_name)]

    def texts(self, task: str | None = None) -> list[str]:
        return [line.text for line in self.lines(task)]

    def stop(self, grace_s: float = 10.0, reason: str = "cancel", *, signals: bool = True) -> None:
        self.folder.give_order(Order(grace_s, reason, "it was asked for"))
        if signals:
            self.launcher.send_signal(signal.SIGUSR1)


def plan_of(replicas: Sequence[ReplicaPlan], **more) -> LaunchPlan:
    environment = more.pop("environment", Environment(python=sys.executable))
    return LaunchPlan(
        job_id="a job", attempt=1, replicas=tuple(replicas), environment=environment, **more
    )


def addresses(shape: Sequence[ReplicaShape]):
    return marks.addresses(KEY, shape)


class Launchers:
    """Starts launchers below a folder, and ends what is left of them."""

    def __init__(self, root: Path, archives: str) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.archive = archived(archives)
        self._started: list[Attempt] = []

    def begin(  # noqa: PLR0913 - what an attempt is made with
        self,
        plan: LaunchPlan,
        *,
        python: str = sys.executable,
        steps: Sequence[StepRule] | None = None,
        env: Mapping[str, str] = {},
        key: AttemptKey = KEY,
        plan_text: str | None = None,
        **more,
    ) -> Attempt:
        folder = self.folder(key)
        count = len(plan.replicas)
        if steps is None:  # as engines do: a launcher runs a single replica itself
            steps = (step(self.archive, 0, count, python),) if count > 1 else ()
        prepare = (python, "-I", "-S", self.archive, "prepare")
        spec = compose.spec_of(plan, key, folder, steps=steps, prepare=prepare, **more)
        compose.write(folder, spec._replace(settle_s=DEADLINE_S))  # the machine may be busy
        if plan_text is not None:
            Path(folder.plan).write_text(plan_text)
        with Path(folder.words).open("wb") as words:
            launcher = subprocess.Popen(
                [*archive_words(python, self.archive), "attempt", folder.path],
                stderr=words,
                stdout=words,
                env={**os.environ, **env},
                start_new_session=True,
            )
        attempt = Attempt(folder, launcher)
        self._started.append(attempt)
        return attempt

    def folder(self, key: AttemptKey = KEY) -> AttemptFolder:
        return AttemptFolder(self.root / str(key.uid) / str(key.attempt))

    def order(self) -> Order:
        return Order(10.0, "cancel", "it was asked for")

    def close(self) -> None:
        for attempt in self._started:
            if attempt.launcher.poll() is None:
                attempt.launcher.kill()
            attempt.launcher.wait(DEADLINE_S)


def eventually(is_so: Callable[[], object], what: str):
    end = time.monotonic() + DEADLINE_S
    while not (answer := is_so()):
        assert time.monotonic() < end, f"waited for: {what}"
        time.sleep(0.02)
    return answer


def wardens(attempt: Attempt) -> list[int]:
    """The pids of wardens, without the reapers that stand behind them."""
    pids = []
    for parent, child in tree.descendants(attempt.launcher.pid):
        words = tree.read_bytes(f"/proc/{child}/cmdline").split(b"\0")
        behind = tree.read_bytes(f"/proc/{parent}/cmdline").split(b"\0")
        if b"task" in words and b"task" in behind:
            pids.append(child)
    return pids
