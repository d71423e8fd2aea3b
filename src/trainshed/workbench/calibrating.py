"""Calibrates a trainer: makes short runs of it on this machine, and fits a calibration to them."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainshed.catalog.accelerators import AcceleratorType, known_accelerators
from trainshed.catalog.machines import known_machines
from trainshed.engines.local.devices.find import devices
from trainshed.engines.local.machine import accelerator_of
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.planning.scaling.calibration import Calibration, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training
from trainshed.planning.stack import module_of
from trainshed.workbench.calibrate_request import CalibrateRequest
from trainshed.workbench.last_lines import LastLines
from trainshed.workbench.local_run import Host, LocalJob
from trainshed.workbench.short_runs import (
    Bench,
    RunLimits,
    RunMeasurement,
    Unmeasured,
    measure,
    with_batch,
)
from trainshed.workbench.step_lines import step_pattern
from trainshed.workbench.trainer_digest import CodeFile, changed, code_files, digest_of

_GIGA: Final = 1e9
_GIB: Final = 2.0**30
#: The default limits of a run in seconds: for its steps, and until the first one.
_STEPS_S, _START_S = 15.0, 120.0
#: Seconds after which no run is repeated because the machine was busy.
_REPEATS_S: Final = 20.0
RUN_NAMES: Final = {
    RunKind.COMPUTE: "compute",
    RunKind.INPUT: "input alone",
    RunKind.HOST: "whole host",
    RunKind.NO_EXCHANGE: "no exchange",
}
#: Runs that time steps (a plan needs one of them), and runs of several accelerators.
_STEPS: Final = frozenset({RunKind.COMPUTE, RunKind.HOST})
_SEVERAL: Final = frozenset({RunKind.HOST, RunKind.NO_EXCHANGE})


@dataclass(frozen=True, slots=True)
class _Accelerators:
    """The accelerators of a host that train."""

    count: int
    is_gpu: bool


def calibrate(
    request: CalibrateRequest, job: LocalJob, host: Host, note: Callable[[str], None]
) -> Calibration:
    """Make the runs and fit a calibration to them.  All checks are done before the first run.

    Raises UsageFault, EngineFault, and Unmeasured if the runs did not measure what a plan needs.
    """
    accelerators = _choose_accelerators(request)
    kinds = _choose_runs(request.runs, accelerators.count)
    pattern = request.step_pattern
    bench = Bench(
        job=job,
        host=host,
        limits=RunLimits(
            steps_s=request.seconds or _STEPS_S, start_s=request.start_seconds or _START_S
        ),
        is_gpu=accelerators.is_gpu,
        pattern=None if pattern is None else step_pattern(pattern),
        batch=request.batch,
        accumulation=request.accumulation,
    )
    module = request.module_name or module_of(job.spec)
    code = code_files(_code_of(request, module))
    runs = _Runs(bench, accelerators.count, note)
    measurements = runs.make(kinds, request.batch_flag)
    _check_unchanged(code)
    calibration = calibrated(
        _training(request, module, measurements),
        _describe_host(request, accelerators),
        [*(measurement.run for measurement in measurements), *request.link_runs()],
    )
    return replace(
        calibration, trainer_digest=digest_of(code), date=f"{datetime.now(tz=UTC):%Y-%m-%d}"
    )


def _code_of(request: CalibrateRequest, module: str) -> list[Path]:
    """Return the files and folders of the trainer's code."""
    code = [path for path in (request.package_path, request.script) if path]
    if module and not request.package_path:
        name = module.split(".", maxsplit=1)[0]
        code += [path for path in (Path(name), Path(f"{name}.py")) if path.exists()]
    return code


def _check_unchanged(code: Sequence[CodeFile]) -> None:
    if (path := changed(code)) is not None:
        raise Unmeasured(
            f"the trainer changed during its calibration: {path} is different now; nothing was "
            "written: run the command again"
        )


def _choose_accelerators(request: CalibrateRequest) -> _Accelerators:
    """Return the accelerators to use.  Raises UsageFault for more than this machine has."""
    cpus = os.cpu_count() or 1
    gpus, processes = request.gpus, request.processes
    gpu_count = len(devices()) if gpus is not None or processes is None else 0
    if gpus is not None:
        if gpus > gpu_count:
            raise UsageFault(
                f"--gpus {gpus}: this machine has {gpu_count or 'no'} GPUs; "
                "run the command on a machine that has them: only its GPUs can be measured"
            )
        return _Accelerators(gpus, is_gpu=True)
    if processes is not None:
        if processes > cpus:
            raise UsageFault(f"--processes must be from 1 to {cpus} (CPUs), got {processes}")
        return _Accelerators(processes, is_gpu=False)
    return _Accelerators(gpu_count or 1, is_gpu=bool(gpu_count))


def _choose_runs(words: str, count: int) -> tuple[RunKind, ...]:
    """Return the runs to make.  Raises UsageFault for runs that measure nothing."""
    kinds = {kind.value: kind for kind in RUN_NAMES}
    letters = (words or ",".join(kinds)).upper().split(",")
    if unknown := sorted(set(letters) - set(kinds)):
        raise UsageFault(
            f"--runs must be letters of {', '.join(kinds)}, separated by commas, got {unknown[0]}"
        )
    requested = {kinds[letter] for letter in letters}
    if not requested & _STEPS:
        raise UsageFault(f"--runs must contain A or C, got {words}: a plan needs timed steps")
    if words and count == 1 and (unfit := _SEVERAL & requested):
        names = ", ".join(sorted(kind.value for kind in unfit))
        raise UsageFault(
            f"--runs {names} needs several accelerators: give --processes or --gpus of 2 or more"
        )
    return tuple(
        kind for kind in RUN_NAMES if kind in requested and (count > 1 or kind not in _SEVERAL)
    )


@dataclass(frozen=True, slots=True)
class _Runs:
    bench: Bench
    count: int
    """Accelerators of the host."""
    note: Callable[[str], None]

    def make(self, kinds: Sequence[RunKind], batch_flag: str) -> list[RunMeasurement]:
        """Make the runs.  Runs of steps must succeed; failures of other runs are only noted."""
        measurements: list[RunMeasurement] = []
        began = time.monotonic()
        for kind in kinds:
            if kind is RunKind.NO_EXCHANGE and not measurements[0].times.stack.startswith("torch"):
                self.note("run D is left out: only trainers with PyTorch can run without exchange")
                continue
            count = self.count if kind in _SEVERAL else 1
            self.note(f"run {kind.value}, {RUN_NAMES[kind]}: {count} of {self.count}")
            may_repeat = time.monotonic() - began < _REPEATS_S
            try:
                measurements.append(self._measure(self.bench, kind, count, may_repeat=may_repeat))
            except EngineFault as fault:
                if kind in _STEPS:
                    raise
                self.note(f"{fault}")
            if kind is RunKind.COMPUTE and batch_flag:
                batch = measurements[-1].run.batch_per_accelerator
                measurements += self._measure_half_batch(batch_flag, batch)
        return measurements

    def _measure(
        self, bench: Bench, kind: RunKind, count: int, *, may_repeat: bool
    ) -> RunMeasurement:
        """Make one run; if it fails, report its last lines."""
        last_lines = LastLines()
        try:
            return measure(bench, kind, count, last_lines, may_repeat=may_repeat)
        except EngineFault:
            for line in last_lines.lines:
                self.note(line)
            raise

    def _measure_half_batch(self, flag: str, batch: float) -> list[RunMeasurement]:
        """Run with half the batch, to measure the part of a step that does not depend on it."""
        half = int(batch / 2)
        if half < 1:
            self.note(f"{flag}: the size of the batch is 1, or was not reported; give --batch")
            return []
        self.note(f"run A, compute: {flag}={half}")
        bench = with_batch(self.bench, flag, half)
        try:
            measurement = self._measure(bench, RunKind.COMPUTE, 1, may_repeat=False)
        except EngineFault as fault:
            self.note(f"{fault}")
            return []
        if measurement.run.batch_per_accelerator >= batch:
            self.note(f"{flag}={half} did not change the batch: this run is left out")
            return []
        return [measurement]


def _describe_host(request: CalibrateRequest, accelerators: _Accelerators) -> HostKind:
    """Describe the host, with the data sheet's rate between GPUs, which the runs correct."""
    count = accelerators.count
    name = accelerator_of(devices()[0]) if accelerators.is_gpu else "CPU"
    gpu = _known_accelerator(name) if count > 1 else None
    return HostKind(
        machine_type=request.machine_type,
        accelerator=name,
        per_host=count,
        cpus=os.cpu_count() or 0,
        inside=gpu.inside if gpu else "",
        inside_bytes=gpu.inside_gbytes * _GIGA if gpu else 0.0,
        network=request.network,
        network_gbps=request.network_gbps,
        memory_bytes=_memory_bytes(name, request.machine_type, is_gpu=accelerators.is_gpu),
    )


def _memory_bytes(accelerator: str, machine_type: str, *, is_gpu: bool) -> float:
    """Return the memory of one GPU or of a machine type by its data sheet; 0 if unknown.

    A machine type that the catalog does not know has the memory of this machine.
    """
    if is_gpu:
        gpu = _known_accelerator(accelerator)
        return (gpu.memory_gib or 0.0) * _GIB if gpu else 0.0
    machine = known_machines().get(machine_type)
    here = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return (machine.memory_gb or 0.0) * _GIB if machine else here


def _known_accelerator(name: str) -> AcceleratorType | None:
    matches = (
        accelerator
        for accelerator in known_accelerators()
        if name in accelerator.enum_by_product.values()
    )
    return next(matches, None)


def _training(
    request: CalibrateRequest, module: str, measurements: Sequence[RunMeasurement]
) -> Training:
    kinds = {measurement.run.kind for measurement in measurements}
    first = next(m for m in measurements if m.run.kind is not RunKind.INPUT)
    times = first.times
    is_fed = RunKind.INPUT in kinds or first.run.wait_share > 0
    training = Training(
        model=module or (request.script.name if request.script else ""),
        parameters=times.parameters,
        largest=times.largest,
        gradient_bytes=times.gradient_bytes,
        batch_per_accelerator=first.run.batch_per_accelerator or 1.0,
        micro_batches=first.run.micro_batches,
        state_bytes=times.state_bytes,
        stack=times.stack,
        data="real" if is_fed else "synthetic",
    )
    return request.state(training)
