"""The short runs of a calibration: the user's own trainer in the usual local run.

A run ends when its steps are measured precisely enough, or when its time is over
(docs/sources/planner.md 5).
"""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trainshed_trainer
from trainshed.engines.base import OutputSink
from trainshed.model import trainer_contract
from trainshed.model.attempt import Outcome
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.faults import EngineFault
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.launch_plan import NO_GPUS
from trainshed.model.roles import Dialect, Role
from trainshed.model.step_times import StepTimes
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.step_statistics import StepStatistics, summarize_times
from trainshed.workbench.local_run import Host, LocalJob, prepare, start
from trainshed.workbench.machine_load import busy_elsewhere
from trainshed.workbench.step_lines import StepLines
from trainshed_trainer.contract import FOLDER

#: A median is precise enough if half of its 95 % interval is below this share of it.
_SURE: Final = 0.02
_STEPS_MIN, _STEPS_MAX = 20, 200
#: A run with fewer steps than this fails.
_STEPS_LEAST: Final = 10
#: Processors used by other programs from which a run is repeated, or else marked as noisy.
_BUSY: Final = 0.3
#: Words of TRAINSHED_STEPS by kind of run.
_WORDS: Final[Mapping[RunKind, str]] = {
    RunKind.INPUT: "hooks,input",
    RunKind.NO_EXCHANGE: "hooks,alone",
}
_OVER: Final = "its steps are measured precisely enough"
_LATE: Final = "its time is over"
_TRAINS: Final = "it takes steps without reading a batch first"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of a run, in seconds."""

    steps_s: float = 15.0
    """The most seconds after the first step."""
    start_s: float = 120.0
    """The most seconds until the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The trainer to measure, and the machine that runs it."""

    job: LocalJob
    """A job with one replica; each run starts as many copies as it needs."""
    host: Host
    limits: RunLimits = field(default_factory=RunLimits)
    is_gpu: bool = False
    pattern: re.Pattern[str] | None = None
    """The pattern of lines that report steps, for trainers without library and hooks."""
    batch: float = 0.0
    """Samples of one accelerator a step, if they are not reported."""
    accumulation: int = 0
    """Micro batches of a step; 0: the hooks count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeasurement:
    """One run, and the step times that it reported."""

    run: Run
    times: StepTimes


class Unmeasured(EngineFault):
    """The trainer failed, or too few of its steps were observed."""


class NoSteps(Unmeasured):
    """A successful run with too few observed steps."""

    def __init__(self, text: str, message: str) -> None:
        """``message`` says how the run ended."""
        super().__init__(text)
        self.message = message


def measure(
    bench: Bench, kind: RunKind, accelerators: int, sink: OutputSink, *, may_repeat: bool = True
) -> RunMeasurement:
    """Make a run; repeat it if its steps are unsteady or the machine was busy, and there is time.

    Raises Unmeasured if the trainer fails or reports no steps; EngineFault if it cannot be
    started; KeyboardInterrupt and SystemExit if a signal stops it: that ends the calibration.
    """
    first = _measure(bench, kind, accelerators, sink)
    if not (first.run.noisy or first.run.is_unsteady) or not may_repeat:
        return first
    again = _measure(bench, kind, accelerators, sink)
    return min(first, again, key=_doubt)


def _doubt(measurement: RunMeasurement) -> tuple[bool, bool, float]:
    run = measurement.run
    return run.is_unsteady, run.noisy, run.load


def with_batch(bench: Bench, flag: str, samples: int) -> Bench:
    """Return the bench with another batch: the flag is appended, because the last one counts."""
    primary = bench.job.spec.groups[0]
    assert primary.program is not None  # noqa: S101  # what a calibration runs has one
    program = replace(primary.program, args=(*primary.program.args, f"{flag}={samples}"))
    groups = (replace(primary, program=program), *bench.job.spec.groups[1:])
    job = replace(bench.job, spec=replace(bench.job.spec, groups=groups))
    return replace(bench, job=job, batch=samples if bench.batch else 0.0)


def _measure(bench: Bench, kind: RunKind, accelerators: int, sink: OutputSink) -> RunMeasurement:
    before = busy_elsewhere()
    times = _run(bench, kind, accelerators, sink)
    load = max(before, busy_elsewhere())
    return RunMeasurement(run=_as_run(bench, kind, accelerators, times, load), times=times)


def _run(bench: Bench, kind: RunKind, accelerators: int, sink: OutputSink) -> StepTimes:
    with _folder() as folder:
        job = _job(bench, kind, accelerators, folder)
        prepared = prepare(job, bench.host)
        primary = prepared.plan.replicas[0].task_name
        step_lines = StepLines(sink, bench.pattern, primary)
        watch = _Watch(bench.limits, step_lines, primary, is_input=kind is RunKind.INPUT)
        ran = start(prepared, bench.host, step_lines, watch.enough)
    _end_if_stopped(ran.outcome, watch.why)
    if ran.outcome.exit_code and not watch.why:
        raise Unmeasured(f"run {kind.value} failed: {ran.outcome.message}")
    times, message = watch.reported(ran.steps), ran.outcome.message
    if times is None or not times.first_s:
        raise NoSteps(
            _explain_missing_steps(kind, message, step_lines if bench.pattern else None), message
        )
    if times.steps < _STEPS_LEAST:
        raise NoSteps(
            f"run {kind.value} took {times.steps} steps after its first ({message}); "
            f"{_STEPS_LEAST} are needed: let the trainer run for longer",
            message,
        )
    return times


def _end_if_stopped(outcome: Outcome, why: str) -> None:
    """If a signal stopped the run, end this command as the signal would."""
    if not outcome.interrupted or outcome.message == why:
        return
    if outcome.exit_code == SIGNAL_BASE + signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(outcome.exit_code)


def _explain_missing_steps(kind: RunKind, message: str, step_lines: StepLines | None) -> str:
    if kind is RunKind.INPUT:
        return (
            "run B read no batch of PyTorch's DataLoader or of Keras's data whose samples can be "
            "counted: run B measures no other input; leave B out of --runs"
        )
    if step_lines is not None:
        return f"run {kind.value} reported no steps ({message}): {step_lines.why_none}"
    return (
        f"run {kind.value} reported no steps ({message}): hooks report the steps of PyTorch, "
        "Lightning and Keras; other trainers call trainshed_trainer.progress(step), or give "
        "--step-pattern"
    )


def _job(bench: Bench, kind: RunKind, accelerators: int, folder: Path) -> LocalJob:
    return replace(
        bench.job,
        spec=_spec(bench.job.spec, accelerators, folder),
        env={**bench.job.env, **_env(bench, kind, accelerators, folder)},
        any_gpu_count=int(bench.is_gpu),
    )


def _spec(spec: JobSpec, count: int, folder: Path) -> JobSpec:
    """Set the number of replicas, and an empty folder of the run's own for results."""
    primary = spec.groups[0]
    groups = [replace(primary, role=Role.PRIMARY, count=1)]
    if count > 1:
        groups.append(ReplicaGroup(role=Role.WORKER, count=count - 1, program=primary.program))
    return replace(
        spec,
        groups=tuple(groups),
        job_dir=str(folder) if spec.job_dir else None,
        base_output_dir=str(folder) if spec.dialect is Dialect.AIPLATFORM_V1 else None,
    )


def _env(bench: Bench, kind: RunKind, accelerators: int, folder: Path) -> dict[str, str]:
    """Return the variables that switch the hooks on; on CPUs they hide GPUs and limit threads."""
    site = Path(trainshed_trainer.__file__).parent / "hooks" / "site"
    python_path = bench.job.env.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
    threads = max(1, (os.cpu_count() or 1) // accelerators)
    return {
        **{name: f"{folder}/{part}" for name, part in FOLDER.items()},
        trainer_contract.STEPS: _WORDS.get(kind, "hooks"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(site), python_path))),
        **({} if bench.is_gpu else {"OMP_NUM_THREADS": str(threads), **NO_GPUS}),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="trainshed-calibrate-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Watch:
    """Decides when a run has measured enough."""

    def __init__(
        self, limits: RunLimits, step_lines: StepLines, task_name: str, *, is_input: bool
    ) -> None:
        self._limits = limits
        self._step_lines = step_lines
        self._task_name = task_name
        self._is_input = is_input
        self._began = self._first = time.monotonic()
        self.why = ""

    def reported(self, steps: Mapping[str, StepTimes]) -> StepTimes | None:
        """Return the times to use; for run B the times of batches, which have samples."""
        times = steps.get(self._task_name)
        if self._is_input:
            return times if times is not None and times.samples else None
        return times if times is not None and times.steps else self._step_lines.times

    def enough(self, steps: Mapping[str, StepTimes]) -> str:
        """Return why the run may end; empty if it must continue (``engines.local.foreground``)."""
        times = self.reported(steps)
        stats = summarize_times(times) if times is not None else None
        if stats is None:
            self._first = time.monotonic()
        self.why = _TRAINS if stats is None and self._trains(steps) else self._why(stats)
        return self.why

    def _trains(self, steps: Mapping[str, StepTimes]) -> bool:
        """Return whether run B is useless: its hooks read batches before the first step."""
        candidates = steps.get(self._task_name), self._step_lines.times
        return self._is_input and any(times and times.steps >= _STEPS_LEAST for times in candidates)

    def _why(self, stats: StepStatistics | None) -> str:
        now = time.monotonic()
        if stats is None:
            return _LATE if now - self._began > self._limits.start_s else ""
        is_sure = stats.steps >= _STEPS_MIN and stats.uncertainty < _SURE
        # batches come in bursts while buffers drain: their median is not precise before the end
        if not self._is_input and (is_sure or stats.steps >= _STEPS_MAX):
            return _OVER
        return _LATE if now - self._first > self._limits.steps_s else ""


def _as_run(bench: Bench, kind: RunKind, accelerators: int, times: StepTimes, load: float) -> Run:
    stats = summarize_times(times)
    assert stats is not None  # noqa: S101  # a run without steps has failed before
    samples, batch = times.samples / times.steps if times.steps else 0.0, bench.batch
    is_input = kind is RunKind.INPUT
    return Run(
        kind=kind,
        accelerators=accelerators,
        batch_per_accelerator=batch or samples,
        micro_batches=bench.accumulation or times.micro_batches or 1,
        steps=stats.steps,
        step_s=0.0 if is_input else stats.step_s,
        step_s_p10=0.0 if is_input else stats.p10_s,
        step_s_p90=0.0 if is_input else stats.p90_s,
        samples_per_s=(batch or samples or 1.0) / stats.step_s if is_input else 0.0,
        wait_share=0.0 if is_input else stats.wait_share,
        memory_bytes=times.device_bytes if bench.is_gpu else times.host_bytes,
        date=f"{datetime.now(tz=UTC):%Y-%m-%d}",
        load=round(load, 2),
        noisy=load > _BUSY,
    )
