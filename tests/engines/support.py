"""What the tests of the local engine share: plans, a sink, and a search for survivors.

Every process tree that a test starts carries a variable of its own in its environment; survivors
are found by it, whatever session, group or parent they have moved to.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from trainshed.engines.base import Stream
from trainshed.engines.local import foreground
from trainshed.engines.local.attempts import start
from trainshed.engines.local.devices import find
from trainshed.engines.supervise import compose
from trainshed.model.attempt import Outcome
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

MARK = "TRAINSHED_TEST_MARK"
DEADLINE_S = 60.0

GROUPS = {
    Role.PRIMARY: "master",
    Role.WORKER: "worker",
    Role.PARAMETER_SERVER: "ps",
    Role.REDUCER: "reducer",
    Role.EVALUATOR: "evaluator",
}

FOREVER = "import time; time.sleep(600)"


def touching(path: Path) -> str:
    """Code of a trainer that makes a file."""
    return f"open({str(path)!r}, 'w').close()\n"


def awaiting(*paths: Path) -> str:
    """Code of a trainer that waits until all these files are there."""
    names = [str(path) for path in paths]
    return f"import os, time\nwhile not all(map(os.path.exists, {names!r})): time.sleep(0.01)\n"


def python_replica(role: Role, index: int, code: str, **more: Any) -> ReplicaPlan:
    return ReplicaPlan(
        role=role,
        index=index,
        task_name=f"{GROUPS[role]}-replica-{index}",
        argv=("python", "-c", code),
        **more,
    )


def plan_of(replicas: Sequence[ReplicaPlan], mark: str = "", **more: Any) -> LaunchPlan:
    marked = (replace(r, env={**r.env, MARK: mark}) if mark else r for r in replicas)
    return LaunchPlan(
        job_id="job",
        attempt=1,
        replicas=tuple(marked),
        environment=Environment(python=sys.executable),
        **more,
    )


def cluster(primary: str, *workers: str) -> list[ReplicaPlan]:
    return [
        python_replica(Role.PRIMARY, 0, primary),
        *(python_replica(Role.WORKER, i, code) for i, code in enumerate(workers)),
    ]


@dataclass
class Recorder:
    """A sink that keeps what it is given, in order."""

    lines: list[tuple[str, str, Stream]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        self.lines.append((replica.task_name, text, stream))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def texts(self, task_name: str, stream: Stream = "stdout") -> list[str]:
        return [text for name, text, kind in self.lines if (name, kind) == (task_name, stream)]


def run_replicas(
    replicas: Sequence[ReplicaPlan], mark: str = "", sink: Any = None, **options: Any
) -> tuple[Outcome, Recorder]:
    recorder = Recorder()
    outcome = run(plan_of(replicas, mark), sink or recorder, **options)
    return outcome, recorder


def run(
    plan: LaunchPlan,
    sink: Any,
    *,
    fake_gpus: int = 0,
    settle_s: float = compose.SETTLE_S,
    grace_s: float = DEADLINE_S,
    **options: Any,
) -> Outcome:
    """A run in the foreground of this process, on a machine with so many fake GPUs and no other."""
    with (
        mock.patch.object(find, "devices", find.fake_devices),
        mock.patch.object(compose, "SETTLE_S", settle_s),
    ):
        return foreground.run(plan, sink, fake_gpus=fake_gpus, grace_s=grace_s, **options).outcome


def without_cgroups() -> Any:
    """Supervisors that are started meanwhile make no boxes: only the sweep ends processes."""
    blind = (
        "from trainshed.engines.processes import cgroup\ncgroup.own_directory = lambda *_: None\n"
    )
    first, rest = start._CODE.split("\n", 1)
    return mock.patch.object(start, "_CODE", f"{first}\n{blind}{rest}")


def marked_processes(mark: str) -> list[int]:
    needle = f"{MARK}={mark}".encode()
    pids = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and needle in (path / "environ").read_bytes().split(b"\0"):
                pids.append(int(path.name))
        except OSError:
            continue
    return pids


def open_files(pid: int) -> list[Path]:
    """What a process has open; what it closes meanwhile is not."""
    paths = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            paths.append(path.readlink())
    return paths


def is_stopped(pid: int) -> bool:
    return ") T " in Path(f"/proc/{pid}/stat").read_text()


def wait_until(condition: Callable[[], Any], what: str | Callable[[], str]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, (
            f"waited too long until {what() if callable(what) else what}"
        )
        os.sched_yield()
        time.sleep(0.01)
    return value


def sleeping() -> subprocess.Popen[bytes]:
    """A process that does nothing, once it is known by its name: it gets that late in its exec."""
    process = subprocess.Popen([shutil.which("sleep") or "sleep", "600"])
    comm = Path(f"/proc/{process.pid}/comm")
    wait_until(lambda: comm.read_text() == "sleep\n", "it sleeps")
    return process


def kill_and_leave(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and wait until it is over; it is not collected."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def assert_no_survivor(mark: str) -> None:
    wait_until(lambda: not marked_processes(mark), f"no process is left of {mark}")
