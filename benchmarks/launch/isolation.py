"""Measures the cost of isolation modes and networks: starts, memory of supervisors, submits.

    python -m benchmarks isolation [--rounds 30] [--submits 800] [--against SRC]

A start lasts from the call of the engine to the time of the first line in the log; for several
replicas, to the last of their first lines.  The program is a shell.  All modes take turns in one
run, so that other work on the machine slows all of them.  The benchmark needs root, because the
mode *users* does.  It leaves out modes and networks that do not work on this machine, and names
them.  ``--submits 0`` measures only starts.  ``--against`` is the ``src`` folder of a version
without modes; its submits are measured in turns too.
"""

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.service.client import Client
from benchmarks.service.documents import VERTEX
from benchmarks.service.servers import Server, local
from trainshed.engines.isolation.choose import IsolationOptions, try_isolation
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.modes import (
    CALL_FAMILIES,
    FILTERED,
    LANDLOCK,
    NONE,
    SANDBOX,
    UIDS,
    USERS,
)
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.network.choose import JobNetwork, try_network
from trainshed.engines.network.rule import replica_address
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.launch_plan import Environment, LaunchPlan, NetworkPlan, Owner, ReplicaPlan
from trainshed.model.log_line import SEGMENT_PATTERN, decode
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder, StopReason

MODES: Final = (NONE, USERS, LANDLOCK, SANDBOX)
NETWORK_MODES: Final = (USERS, SANDBOX)
#: The goals for the modes in PROMISED; the sandbox has none, because it starts two more processes.
START_MS_MAX: Final = 10.0
#: The time in ms that a separate network may add to a start, by the number of replicas.
NETWORK_MS_MAX: Final = {1: 15.0, 4: 25.0}
MEMORY_MB_MAX: Final = 0.5
SUBMIT_SHARE_MAX: Final = 1.03
PROMISED: Final[tuple[str, ...]] = (USERS, LANDLOCK)
FILTER_MS_MAX: Final = 3.0
#: The version that ``--against`` names.
BEFORE: Final = "before"
_WAIT_S_MAX: Final = 60.0


class Setup(NamedTuple):
    """A way to start a job."""

    mode: str
    replicas: int = 1
    layout: NetworkLayout | None = None
    """The layout of the job's separate network; None: replicas use the network of the machine."""
    is_filtered: bool = True
    """Whether system calls that no trainer needs are refused."""

    def __str__(self) -> str:
        """Return a description for people."""
        count = f" x {self.replicas}" if self.replicas > 1 else ""
        network = f", network a {self.layout.value}" if self.layout else ""
        return f"{self.mode}{count}{network}{'' if self.is_filtered else ', no seccomp'}"


class Start(NamedTuple):
    """One start of a job."""

    ms: float
    memory_mb: float
    """The memory of the supervisor while the job runs."""


def measure(args: argparse.Namespace) -> Report:
    """Measure starts in all modes in turns, then submits."""
    if os.geteuid() != 0:
        return Report(left_out={"all modes": "the mode users needs root"})
    absent = {
        mode: why for mode in MODES[1:] if (why := try_isolation(mode, IsolationOptions().uids[0]))
    }
    modes = [mode for mode in MODES if mode not in absent]
    absent |= {
        f"a network of its own in {mode}": why
        for mode in NETWORK_MODES
        if mode in modes and (why := try_network(mode))
    }
    starts = all_starts(list(setups(modes, absent)), args.rounds)
    submits = all_submits(args.submits, args.warm_submits, args.against) if args.submits else {}
    return Report(
        goals=list(goals(starts, submits)),
        left_out=absent,
        lines=list(lines(starts, submits)),
        data={
            "starts": {str(setup): times for setup, times in starts.items()},
            "submits_ms": submits,
        },
    )


# ---- starts ----


def setups(modes: list[str], absent: Mapping[str, str]) -> Iterator[Setup]:
    """Yield each mode, with and without its system call filter, and with separate networks."""
    yield from map(Setup, modes)
    yield from (Setup(mode, is_filtered=False) for mode in modes if mode in FILTERED)
    for mode in (mode for mode in NETWORK_MODES if mode in modes):
        if f"a network of its own in {mode}" not in absent:
            yield Setup(mode, 1, NetworkLayout.JOB)
            yield Setup(mode, 4)
            yield from (Setup(mode, 4, layout) for layout in NetworkLayout)


def all_starts(all_setups: list[Setup], rounds: int) -> dict[Setup, list[Start]]:
    """Start each setup once in each round, in random order; the first round does not count."""
    starts: dict[Setup, list[Start]] = {setup: [] for setup in all_setups}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        Path(folder).chmod(0o755)
        order = random.Random(1)  # noqa: S311
        engines = {
            setup: engine_of(Path(folder) / str(index), setup)
            for index, setup in enumerate(all_setups)
        }
        turns = list(all_setups)
        for number in range(rounds + 1):
            order.shuffle(turns)
            for setup in turns:
                start = one_start(*engines[setup], setup, number + 1)
                starts[setup] += [start] if number else []
        for _, engine in engines.values():
            engine.close()
    return starts


def engine_of(root: Path, setup: Setup) -> tuple[Path, LocalEngine]:
    """Return the folder of the jobs and a new engine, which starts a fork server when needed."""
    hides = () if setup.mode == NONE else (str(root),)
    refused = CALL_FAMILIES if setup.is_filtered else ()
    isolation = Isolation(setup.mode, uids=UIDS, hides=hides, refused_calls=refused)
    network = JobNetwork(is_own=setup.layout is not None)
    engine = LocalEngine(
        root, LocalOptions(find_gpus=tuple, isolation=isolation, network=network, pass_env=())
    )
    return root, engine


def one_start(root: Path, engine: LocalEngine, setup: Setup, number: int) -> Start:
    """Launch a job, wait for its lines, measure its supervisor, and stop the job."""
    key = AttemptKey(number, 1)
    began_ns = time.time_ns()
    engine.launch(key, plan(setup), ())
    folder = AttemptFolder(root / str(number) / "1")
    stamp_ns = last_line_ns(folder, setup.replicas)
    memory = memory_mb(folder)
    engine.stop(key, StopOrder(grace_s=0.0, reason=StopReason.CANCEL, message=""))
    wait_for(lambda: engine.observe([key])[0].phase is Phase.ENDED)
    return Start((stamp_ns - began_ns) / 1e6, memory)


def plan(setup: Setup) -> LaunchPlan:
    """Return a launch plan of shells that print one line each."""
    replicas = tuple(
        ReplicaPlan(
            role=Role.WORKER if index else Role.PRIMARY,
            index=max(index - 1, 0),
            task_name=f"replica-{index}",
            argv=("/bin/sh", "-c", "echo up; exec sleep 600"),
        )
        for index in range(setup.replicas)
    )
    addresses = tuple(map(replica_address, range(setup.replicas)))
    return LaunchPlan(
        job_id="job",
        attempt=1,
        replicas=replicas,
        environment=Environment(python=sys.executable),
        owner=Owner(project="benchmark", number=0),
        network=setup.layout and NetworkPlan(layout=setup.layout, addresses=addresses),
    )


def last_line_ns(folder: AttemptFolder, count: int) -> int:
    """Wait for one line from each of ``count`` programs; return the last line's time in ns."""
    stamps: list[int] = []

    def has_all_lines() -> bool:
        stamps.clear()
        for path in sorted(Path(folder.log).glob(SEGMENT_PATTERN)):
            lines = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
            stamps.extend(
                line.stamp_ns for line in map(decode, filter(None, lines)) if line.text == "up"
            )
        return len(stamps) == count

    wait_for(has_all_lines)
    return max(stamps)


def memory_mb(folder: AttemptFolder) -> float:
    """Return the resident memory of the supervisor of an attempt, in MB."""
    records = AttemptRecords()
    records.read(folder.records)
    if records.began is None:
        raise SystemExit(f"the supervisor has not begun; read {folder.words}")
    text = Path(f"/proc/{records.began.pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Rss:") / 1024


def wait_for(is_so: Callable[[], bool]) -> None:
    """Poll until ``is_so`` is true, with pauses that leave the CPU to the measured processes."""
    deadline = time.monotonic() + _WAIT_S_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"the job did not get there within {_WAIT_S_MAX:g} s")
        time.sleep(0.005)


# ---- submits ----


def all_submits(count: int, warm: int, before: Path | None) -> dict[str, list[float]]:
    """Return the ms of each submit, by the mode of the server: none, users, or another version."""
    with contextlib.ExitStack() as stack:
        servers = {mode: running(mode) for mode in (NONE, USERS)}
        servers |= {BEFORE: running(BEFORE, before)} if before else {}
        ready = {name: stack.enter_context(server) for name, server in servers.items()}
        # connect after all servers have started: a server closes idle connections
        turns = [(name, stack.enter_context(server.client())) for name, server in ready.items()]
        times: dict[str, list[float]] = {name: [] for name, _ in turns}
        order = random.Random(1)  # noqa: S311
        for number in range(warm + count):
            order.shuffle(turns)
            for name, client in turns:
                ms = submit_ms(client)
                times[name] += [ms] if number >= warm else []
    return times


@contextlib.contextmanager
def running(mode: str, source: Path | None = None) -> Iterator[Server]:
    """Start a server without free slots, so that no job starts during the submits."""
    isolation = f'[isolation]\nmode = "{mode}"\nallow_root_jobs = true\n'
    with tempfile.TemporaryDirectory() as folder:
        text = f"{'' if source else isolation}[fleet]\nslots = 1\n{_IMAGE}"
        (Path(folder) / "config.toml").write_text(text)
        with local(Path(folder), source=source) as server, server.client() as client:
            client.call("POST", VERTEX, job("sleep 100000"))
            yield server


_IMAGE: Final = f"""\
[[environment]]
name = "own"
python = "{sys.executable}"
[[image]]
image = "registry.test/*"
environment = "own"
"""


def job(script: str) -> dict[str, object]:
    """Return a job of one replica that runs a shell script."""
    container = {"imageUri": "registry.test/x", "command": ["sh", "-c"], "args": [script]}
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
    return {"displayName": "job", "jobSpec": {"workerPoolSpecs": [pool]}}


def submit_ms(client: Client) -> float:
    """Submit a job that stays in the queue; return the ms."""
    began = time.perf_counter()
    client.answer("POST", VERTEX, job("true"))
    return (time.perf_counter() - began) * 1000


# ---- results ----


def goals(starts: dict[Setup, list[Start]], submits: dict[str, list[float]]) -> Iterator[Goal]:
    """Yield the goals: what modes, filters and networks add to a start, and modes to a submit."""
    for mode in (mode for mode in PROMISED if Setup(mode) in starts):
        walled, none = starts[Setup(mode)], starts[Setup(NONE)]
        yield at_most(f"start, {mode}, over none", added_ms(walled, none), START_MS_MAX, "ms")
        pairs = zip(walled, none, strict=True)
        mb = statistics.median(ours.memory_mb - theirs.memory_mb for ours, theirs in pairs)
        yield at_most(f"supervisor, {mode}, over none", mb, MEMORY_MB_MAX, "MB")
    for mode in (mode for mode in FILTERED if Setup(mode) in starts):
        setup = Setup(mode)
        ms = added_ms(starts[setup], starts[setup._replace(is_filtered=False)])
        yield at_most(f"seccomp, {mode}", ms, FILTER_MS_MAX, "ms")
    for setup in (setup for setup in starts if setup.layout):
        ms = added_ms(starts[setup], starts[setup._replace(layout=None)])
        yield at_most(f"start, {setup}", ms, NETWORK_MS_MAX[setup.replicas], "ms")
    for other in (name for name in (NONE, BEFORE) if name in submits):
        share = statistics.median(submits[USERS]) / statistics.median(submits[other])
        yield at_most(f"submit, users over {other}", share, SUBMIT_SHARE_MAX, "times")


def added_ms(starts: list[Start], others: list[Start]) -> float:
    """Return the median of the differences in ms, pair by pair."""
    return statistics.median(
        ours.ms - theirs.ms for ours, theirs in zip(starts, others, strict=True)
    )


def lines(starts: dict[Setup, list[Start]], submits: dict[str, list[float]]) -> Iterator[str]:
    """Yield a line for each setup and for the submits of each mode."""
    base = statistics.median(start.ms for start in starts[Setup(NONE)])
    yield f"  {'mode':<30} {'first line':>12} {'of none':>8} {'supervisor':>12}"
    for setup, samples in starts.items():
        ms = statistics.median(start.ms for start in samples)
        mb = statistics.median(start.memory_mb for start in samples)
        yield f"  {setup!s:<30} {ms:9.1f} ms {ms / base:8.2f} {mb:9.2f} MB"
    for mode, times in submits.items():
        yield f"  submit, {mode:<6} {statistics.median(times):6.2f} ms"


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"rounds": (30, 1), "submits": (800, 2), "warm-submits": (50, 0)},
    add_options=lambda parser: parser.add_argument("--against", type=Path, metavar="SRC"),
)
