"""What walls and networks cost: the start of a job, its supervisor's memory and a submit.

    python -m benchmarks isolation [--rounds 30] [--submits 800] [--against SRC]

A start lasts from the engine's order to the first line of the program, a shell, as the supervisor
stamps it; of several replicas, to the last of these lines.  All modes take turns in one run, so
that whatever else the machine does meets all of them.  It needs root, since *users* does; modes and
networks that do not work here are left out by name.  ``--submits 0`` measures starts alone.
``--against`` names the ``src`` of a version before there were modes: its submits take turns too.
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
#: The promises; the sandbox starts two processes more, and none is made for it.
START_MS_MAX: Final = 10.0
#: By how many replicas the job has: what a network of its own may add to its start.
NETWORK_MS_MAX: Final = {1: 15.0, 4: 25.0}
MEMORY_MB_MAX: Final = 0.5
SUBMIT_SHARE_MAX: Final = 1.03
PROMISED: Final[tuple[str, ...]] = (USERS, LANDLOCK)
FILTER_MS_MAX: Final = 3.0
#: The version that ``--against`` names.
BEFORE: Final = "before"
_WAIT_S_MAX: Final = 60.0


class Setup(NamedTuple):
    """How a job is started."""

    mode: str
    replicas: int = 1
    layout: NetworkLayout | None = None
    """How replicas share a network of their own; None: they have the machine's."""
    is_filtered: bool = True
    """Whether system calls that no trainer needs are refused."""

    def __str__(self) -> str:
        """For people."""
        count = f" x {self.replicas}" if self.replicas > 1 else ""
        network = f", network a {self.layout.value}" if self.layout else ""
        return f"{self.mode}{count}{network}{'' if self.is_filtered else ', no seccomp'}"


class Start(NamedTuple):
    """One start of a job."""

    ms: float
    memory_mb: float
    """What its supervisor has in memory while it runs."""


def measure(args: argparse.Namespace) -> Report:
    """Starts of all modes in turns, then submits."""
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
    """Each mode, also without its filter of system calls, and with networks of one and four."""
    yield from map(Setup, modes)
    yield from (Setup(mode, is_filtered=False) for mode in modes if mode in FILTERED)
    for mode in (mode for mode in NETWORK_MODES if mode in modes):
        if f"a network of its own in {mode}" not in absent:
            yield Setup(mode, 1, NetworkLayout.JOB)
            yield Setup(mode, 4)
            yield from (Setup(mode, 4, layout) for layout in NetworkLayout)


def all_starts(all_setups: list[Setup], rounds: int) -> dict[Setup, list[Start]]:
    """So many of each, in turns of another order each; the first round is not counted."""
    starts: dict[Setup, list[Start]] = {setup: [] for setup in all_setups}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        Path(folder).chmod(0o755)
        order = random.Random(1)  # noqa: S311
        engines = {
            setup: engine_of(Path(folder) / str(place), setup)
            for place, setup in enumerate(all_setups)
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
    """The folder of its attempts, and an engine whose fork server is warm after the first start."""
    hides = () if setup.mode == NONE else (str(root),)
    refused = CALL_FAMILIES if setup.is_filtered else ()
    isolation = Isolation(setup.mode, uids=UIDS, hides=hides, refused_calls=refused)
    network = JobNetwork(is_own=setup.layout is not None)
    engine = LocalEngine(
        root, LocalOptions(find_gpus=tuple, isolation=isolation, network=network, pass_env=())
    )
    return root, engine


def one_start(root: Path, engine: LocalEngine, setup: Setup, number: int) -> Start:
    """Launch a job, wait for its lines, look at its supervisor, end it."""
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
    """Shells that say that they are there."""
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
    """When the last of so many lines was read, one a program."""
    stamps: list[int] = []

    def look() -> bool:
        stamps.clear()
        for path in sorted(Path(folder.log).glob(SEGMENT_PATTERN)):
            lines = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
            stamps.extend(
                line.stamp_ns for line in map(decode, filter(None, lines)) if line.text == "up"
            )
        return len(stamps) == count

    wait_for(look)
    return max(stamps)


def memory_mb(folder: AttemptFolder) -> float:
    """What the supervisor of an attempt has in memory, its share of what others have too."""
    records = AttemptRecords()
    records.read(folder.records)
    if records.began is None:
        raise SystemExit("the supervisor has not begun")
    text = Path(f"/proc/{records.began.pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Rss:") / 1024


def wait_for(is_so: Callable[[], bool]) -> None:
    """Poll, so that the machine is left to what is measured."""
    deadline = time.monotonic() + _WAIT_S_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("waited too long")
        time.sleep(0.005)


# ---- submits ----


def all_submits(count: int, warm: int, before: Path | None) -> dict[str, list[float]]:
    """Each submit's ms, to a server without walls, one with users, and one of another version."""
    with contextlib.ExitStack() as held:
        servers = {mode: running(mode) for mode in (NONE, USERS)}
        servers |= {BEFORE: running(BEFORE, before)} if before else {}
        ready = {name: held.enter_context(server) for name, server in servers.items()}
        # connections last: a server ends one that is silent while the others start
        turns = [(name, held.enter_context(server.client())) for name, server in ready.items()]
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
    """A server with room for no job, so that submits alone are measured."""
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
    """A job of one replica that runs a shell."""
    container = {"imageUri": "registry.test/x", "command": ["sh", "-c"], "args": [script]}
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
    return {"displayName": "job", "jobSpec": {"workerPoolSpecs": [pool]}}


def submit_ms(client: Client) -> float:
    """One that is queued."""
    began = time.perf_counter()
    client.answer("POST", VERTEX, job("true"))
    return (time.perf_counter() - began) * 1000


# ---- what is said ----


def goals(starts: dict[Setup, list[Start]], submits: dict[str, list[float]]) -> Iterator[Goal]:
    """What modes, system call filters and networks may add to a start, and modes to a submit."""
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
    """By how much one is slower than another, pair by pair: the median."""
    return statistics.median(
        ours.ms - theirs.ms for ours, theirs in zip(starts, others, strict=True)
    )


def lines(starts: dict[Setup, list[Start]], submits: dict[str, list[float]]) -> Iterator[str]:
    """A line for each setup."""
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
