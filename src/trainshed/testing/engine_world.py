"""The fixtures of the engine contract: programs, launch plans, and a world to run them in.

A ``World`` is one installation of the engine under test; ``ShellWorld`` implements a part of it for
engines whose replicas see a folder of this machine.
"""

import json
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, runtime_checkable

from trainshed.engines.base import Engine
from trainshed.model.attempt import AttemptKey, MetricsPlan
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.log_line import LogLine
from trainshed.model.roles import Role

#: The variable of a replica that describes its program; see ``program_of``.
PROGRAM: Final = "TRAINSHED_CONTRACT_PROGRAM"


class FakeProgram(NamedTuple):
    """A replica's program: runs ``code`` if the engine runs programs, may wait, reports, and ends.

    If ``waits``, the program waits until ``World.finish``; if ``deaf``, it ignores SIGTERM.  It
    reports ``reports`` values of the metric ``loss``, at steps from 0.  It ends by ``signal`` if
    this is not 0, of too little memory (``oom``), or with its exit code.  The first program is the
    primary, whatever its role.  A ``missing`` program does not exist.
    """

    exit_code: int = 0
    signal: int = 0
    oom: bool = False
    waits: bool = False
    deaf: bool = False
    reports: int = 0
    code: str = ""
    role: Role = Role.WORKER
    missing: bool = False


WAITS: Final = FakeProgram(waits=True)
DEAF: Final = FakeProgram(waits=True, deaf=True)
SERVES: Final = FakeProgram(waits=True, role=Role.PARAMETER_SERVER)
MISSING: Final = FakeProgram(missing=True)
_MEMORY_BYTES: Final = 64 << 20


class World(Protocol):
    """One installation of an engine, and what a test does to it."""

    limits_memory: bool
    """Whether the nodes enforce memory limits; not every kernel supports that."""

    def engine(self) -> Engine:
        """Return the engine as after a restart of the server."""

    def elsewhere(self) -> Engine:
        """Return the engine of another installation on the same nodes."""

    def plan(self, key: AttemptKey, *programs: FakeProgram) -> LaunchPlan:
        """Return the plan of ``plan_of``, completed for the engine."""

    def started(self, key: AttemptKey) -> int:
        """Return how many programs of an attempt have started."""

    def finish(self, key: AttemptKey) -> None:
        """Let the waiting programs of an attempt continue."""

    def lose(self, key: AttemptKey) -> None:
        """Remove a running attempt and its supervisors, but not its files."""

    def leftover(self, key: AttemptKey) -> AbstractContextManager[object]:
        """Run a process of an attempt without a supervisor, while the block lasts."""

    def away(self) -> AbstractContextManager[object]:
        """Make the nodes unreachable for the engine, while the block lasts."""

    def lines(self, key: AttemptKey) -> Sequence[LogLine]:
        """Return the log of an attempt."""


class QueueWorld(World, Protocol):
    """The world of an engine with a queue of its own."""

    def busy(self) -> AbstractContextManager[object]:
        """Stop the queue from placing attempts, while the block lasts."""

    def empty(self) -> AbstractContextManager[object]:
        """Make the queue report that it is empty, while the block lasts."""

    def evict(self, key: AttemptKey) -> None:
        """End a running attempt by an administrator's order, such as a drain."""


@runtime_checkable
class HasThreads(Protocol):
    """A world that runs a part of itself, such as a simulated cluster, in the test's process."""

    def list_own_threads(self) -> Collection[threading.Thread]:
        """List the threads that are the world's and not the engine's."""


def plan_of(
    *programs: FakeProgram, env: Mapping[str, str] | None = None, metric_file: str = ""
) -> LaunchPlan:
    """Return a plan whose replicas run the programs; the first one is the primary."""
    replicas, counts = [], dict.fromkeys(Role, 0)
    for position, program in enumerate(programs):
        role = program.role if position else Role.PRIMARY
        index, counts[role] = counts[role], counts[role] + 1
        program_env = {PROGRAM: json.dumps({**program._asdict(), "role": role.value})}
        argv = ("/no/such/program",) if program.missing else ("/bin/sh", "-c", _shell(program))
        if program.reports:
            program_env["CLOUD_ML_HP_METRIC_FILE"] = metric_file
        replicas.append(
            ReplicaPlan(
                role=role,
                index=index,
                task_name=f"{role.value}-{index}",
                argv=argv,
                env={**(env or {}), **program_env},
                memory_bytes_max=_MEMORY_BYTES if program.oom else None,
            )
        )
    is_trial = any(program.reports for program in programs)
    return LaunchPlan(
        job_id="contract",
        attempt=1,
        replicas=tuple(replicas),
        environment=Environment(python=sys.executable),
        metrics=MetricsPlan(files=(metric_file,), tags=("loss",)) if is_trial else None,
    )


def program_of(replica: ReplicaPlan) -> FakeProgram:
    """Return the program of a replica of ``plan_of``, for an engine that only simulates."""
    fields = json.loads(replica.env[PROGRAM])
    return FakeProgram(**{**fields, "role": Role(fields["role"])})


def _shell(program: FakeProgram) -> str:
    """Return a shell script: it appends to ``$STARTED``, and may wait until ``$GO`` exists."""
    reports = (
        json.dumps({"timestamp": 1, "trial": "0", "loss": str(step), "global_step": str(step)})
        for step in range(program.reports)
    )
    lines = [
        'echo . >> "$STARTED"',
        "trap '' TERM" if program.deaf else "",
        program.code,
        'while [ ! -e "$GO" ]; do sleep 0.02; done' if program.waits else "",
        'mkdir -p "$(dirname "$CLOUD_ML_HP_METRIC_FILE")"' if program.reports else "",
        *(f"echo '{report}' >> \"$CLOUD_ML_HP_METRIC_FILE\"" for report in reports),
        f"kill -{program.signal} $$; sleep 60" if program.signal else "",
        "x=a; while :; do x=$x$x; done" if program.oom else "",
        f"exit {program.exit_code}",
    ]
    return "\n".join(filter(None, lines))


class ShellWorld:
    """The part of a ``World`` that is the same for all engines whose programs see ``folder``."""

    limits_memory = True

    def __init__(self, folder: Path, *, inside: str = "", metrics: str = "") -> None:
        """``folder`` belongs to the test; programs see it under the path ``inside``.

        ``metrics`` is the folder of metric files, as programs see it.  Empty: ``folder``.
        """
        self._folder = folder
        self._inside = inside or str(folder)
        self._metrics = metrics or self._inside

    def plan(self, key: AttemptKey, *programs: FakeProgram) -> LaunchPlan:
        """Return the plan, with the files through which test and programs communicate."""
        env = {
            "STARTED": f"{self._inside}/{_name_file('started', key)}",
            "GO": f"{self._inside}/{_name_file('go', key)}",
        }
        metric_file = f"{self._metrics}/{_name_file('metrics', key)}"
        return plan_of(*programs, env=env, metric_file=metric_file)

    def started(self, key: AttemptKey) -> int:
        """Count the lines that the starts have written."""
        with suppress(FileNotFoundError):
            return self._path("started", key).read_text().count(".")
        return 0

    def finish(self, key: AttemptKey) -> None:
        """Make the file for which the programs wait."""
        self._path("go", key).touch()

    def _path(self, kind: str, key: AttemptKey) -> Path:
        return self._folder / _name_file(kind, key)


def _name_file(kind: str, key: AttemptKey) -> str:
    return f"{kind}-{key.uid}-{key.attempt}"
