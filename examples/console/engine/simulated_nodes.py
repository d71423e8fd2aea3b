"""The engine ``simulated``: nodes that do not exist, on which no process runs.

Its options are ``nodes`` (names), ``gpu`` (a type), ``gpus`` (of each node) and ``queue`` (true: it
has a queue of its own, like a cluster).  A job says in the arguments of its container what its
attempts do: ``runs=SECONDS``, ``exit=CODE``, ``ready=SECONDS``, ``notice=SECONDS`` (how long it
goes on after a notice) and ``log=steps|nan|live|long``.  A trial with the argument ``--lr`` reports
a learning curve.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from trainshed.engines.base import EngineContext, PlacedBy
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.model.attempt import AttemptKey, Report
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.log_line import LOG_FOLDER
from trainshed.model.resources import FleetPolicy, Node, SeatsOrClaim
from trainshed.testing.fake_engine import FakeEngine, Script

STEPS: Final = 12
#: Seconds between two reports of a trial.
STEP_S: Final = 0.25
LIVE_S: Final = 0.5
LONG_LINES: Final = 200_000
NAN_STEP: Final = 1_437


def make(context: EngineContext) -> "SimulatedEngine":
    """Make the engine of a server's settings."""
    options = context.options
    nodes = [_node(name, options["gpu"], options["gpus"]) for name in options["nodes"]]
    places = PlacedBy.ENGINE if options.get("queue") else PlacedBy.SERVER
    return SimulatedEngine(context.name, nodes, context.jobs_dir, places)


def _node(name: str, gpu: str, gpus: int) -> Node:
    return Node(
        name=name,
        vcpus=96,
        memory_gb=768.0,
        gpus={gpu: gpus},
        slots=16,
        policy=FleetPolicy.BEST_EFFORT,
    )


class SimulatedEngine(FakeEngine):
    """The fake engine of tests, whose attempts also write logs."""

    def __init__(self, name: str, nodes: list[Node], jobs_dir: Path, places: PlacedBy) -> None:
        """``jobs_dir``: the folder of the logs."""
        super().__init__(nodes, script=script_of, places=places)
        self.name = name
        self.is_busy = places is PlacedBy.ENGINE
        self._jobs_dir = jobs_dir
        self._live: dict[AttemptKey, tuple[SegmentWriter, str, Iterator[str]]] = {}
        threading.Thread(target=self._write_live_logs, name="live logs", daemon=True).start()

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start an attempt, and write what its replicas print."""
        is_new = key not in self.launches
        super().launch(key, plan, place)
        if is_new and plan.replicas:
            self._write_log(key, plan)

    def _write_log(self, key: AttemptKey, plan: LaunchPlan) -> None:
        kind = words_of(plan).get("log", "steps")
        folder = self._jobs_dir / str(key.uid) / str(key.attempt) / LOG_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        writer = SegmentWriter(folder)
        names = [replica.task_name for replica in plan.replicas]
        if kind == "live":
            self._live[key] = (writer, names[0], _steps(10**9))
            return
        for number, (severity, text) in enumerate(_lines(kind)):
            name = names[number % len(names)] if severity == "INFO" else names[0]
            writer.line(name, text, severity=severity, stream="stdout")
        writer.close()

    def _write_live_logs(self) -> None:
        while True:
            time.sleep(LIVE_S)
            for key, (writer, name, texts) in list(self._live.items()):
                if key not in self._world.attempts or self._world.attempts[key].ended:
                    self._live.pop(key)[0].close()
                    continue
                writer.line(name, next(texts), severity="INFO", stream="stdout")
                writer.flush()


def words_of(plan: LaunchPlan) -> Mapping[str, str]:
    """Return the arguments ``--NAME=VALUE`` and ``--NAME VALUE`` of the first replica."""
    words = plan.replicas[0].argv if plan.replicas else ()
    pairs = [(name, value) for name, value in pairwise(words) if name.startswith("--")]
    values = {name.removeprefix("--"): value for name, value in pairs if "=" not in name}
    joined = (word.removeprefix("--").split("=", 1) for word in words if "=" in word)
    return values | dict(joined)


def script_of(_: AttemptKey, plan: LaunchPlan) -> Script:
    """Return the course of an attempt, as the arguments of its job say."""
    words = words_of(plan)
    if "lr" in words:
        reports = tuple(_curve(words))
        return Script(runs_s=STEP_S * (STEPS + 1), reports=reports, notice_s=0.2)
    return Script(
        ready_s=float(words.get("ready", 0)),
        runs_s=float(words["runs"]) if "runs" in words else None,
        exit_code=int(words.get("exit", 0)),
        notice_s=float(words["notice"]) if "notice" in words else 0.2,
    )


def _curve(words: Mapping[str, str]) -> Iterator[tuple[float, Report]]:
    """Yield the curve of a trial; the best learning rate is 0.01, the best width 96."""
    off = abs(math.log10(float(words["lr"])) + 2.0) + abs(float(words.get("width", 96)) - 96) / 160
    best = 0.97 - 0.18 * min(off, 3.0)
    for step in range(1, STEPS + 1):
        value = best * (1.0 - 0.6 / step)
        seconds = STEP_S * step
        yield seconds, Report(tag="accuracy", value=value, step=step, elapsed_s=seconds)


def _lines(kind: str) -> Iterator[tuple[str, str]]:
    """Yield the severity and the text of each line that an attempt prints."""
    if kind == "nan":
        for text in _steps(2_000, nan_from=NAN_STEP):
            yield "INFO", text
        yield "ERROR", "Traceback (most recent call last):"
        yield "ERROR", '  File "/app/trainer/task.py", line 88, in train'
        yield "ERROR", "    raise FloatingPointError(f'loss is {loss} at step {step}')"
        yield "ERROR", "FloatingPointError: loss is nan at step 2000"
        return
    for text in _steps(LONG_LINES if kind == "long" else 200):
        yield "INFO", text


def _steps(count: int, nan_from: int | None = None) -> Iterator[str]:
    """Yield a line for each step; some have colours."""
    for step in range(1, count + 1):
        loss = 4.2 / (1.0 + step / 60) + 0.05 * math.sin(step)
        value = "nan" if nan_from and step >= nan_from else f"{loss:.4f}"
        text = f"step {step} loss {value} examples/s {2310 + 40 * math.cos(step):.0f}"
        yield f"\x1b[32m{text}\x1b[0m checkpoint saved" if step % 100 == 0 else text
