"""``trainshed plan calibrate``: short runs of a trainer, in words and in the file they make."""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainshed.catalog.accelerators import known_accelerators
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.failures import print_error
from trainshed.cli.flags import Request
from trainshed.cli.local.local_train import cluster_job_of
from trainshed.cli.local.run_job import host_of_job
from trainshed.cli.terminal import answer, note, table
from trainshed.engines.local.devices.find import devices
from trainshed.engines.local.machine import accelerator_of
from trainshed.files.server_files import PUBLIC, write_file
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.input_bound import of_run
from trainshed.planning.scaling.training import Strategy, Training
from trainshed.service.starts.programs import Source, working_folder
from trainshed.storage.folders import reason
from trainshed.workbench.last_lines import LastLines
from trainshed.workbench.local_run import LocalJob
from trainshed.workbench.plain_train import PlainJob, plain_spec, say
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

#: What the trainer does cannot be known: it failed, reported no steps, or changed meanwhile.
EXIT_UNMEASURED: Final = 3
#: Bytes that a parameter's gradient has where no hook has seen it.
_BYTES: Final = 4.0
_GIGA: Final = 1e9
#: Later than this no run is made again for the sake of a quieter machine, in seconds.
_REPEATS_S: Final = 20.0
_NAMES: Final = {
    RunKind.COMPUTE: "compute",
    RunKind.INPUT: "input alone",
    RunKind.HOST: "whole host",
    RunKind.NO_EXCHANGE: "no exchange",
}
#: Those without which there is nothing to plan with, and those of several accelerators.
_STEPS: Final = frozenset({RunKind.COMPUTE, RunKind.HOST})
_SEVERAL: Final = frozenset({RunKind.HOST, RunKind.NO_EXCHANGE})


def run(request: Request) -> int:
    """Make the runs, say what they mean, and write the file.  Raises UsageFault, EngineFault."""
    try:
        show(request.args, _calibrate(request))
    except Unmeasured as fault:
        print_error(str(fault))
        return EXIT_UNMEASURED
    return 0


def show(args: argparse.Namespace, calibration: Calibration) -> None:
    """Write the file, and say what is in it.  Raises EngineFault, Unmeasured."""
    text = written(calibration)
    try:
        read(text)
    except ValueError as error:
        raise Unmeasured(f"the trainer reported what cannot be: {error}") from None
    _write(args.out, text)
    lines = list(sentences(calibration))
    answer(args.format, _as_json(calibration, lines, args.out), _text(calibration, lines, args.out))


def _calibrate(request: Request) -> Calibration:
    """The runs; whatever can be refused is refused before the first of them."""
    args = request.args
    count, is_gpu = _accelerators(args)
    kinds = _kinds(args, count)
    job = _job(request)
    bench = Bench(
        job=job,
        host=host_of_job(args, job),
        limits=RunLimits(steps_s=args.seconds, start_s=args.start_seconds),
        is_gpu=is_gpu,
        pattern=None if args.step_pattern is None else step_pattern(args.step_pattern),
        batch=args.batch,
    )
    check_out(args.out)
    code = code_files(_places(args))
    measurements = _measure_all(bench, kinds, count, args.batch_flag)
    _check_unchanged(code)
    calibration = _calibration(args, measurements, count, is_gpu=is_gpu)
    return replace(
        calibration, trainer_digest=digest_of(code), date=f"{datetime.now(tz=UTC):%Y-%m-%d}"
    )


def check_out(path: Path) -> None:
    """There can be such a file: nobody wants to hear otherwise after the runs.  UsageFault."""
    try:
        if path.exists() and not path.is_file():
            raise UsageFault(f"--out {path}: that is no file; give the name of one")
        # as long a name as the file's own draft
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageFault(f"--out {path} cannot be written: {reason(error)}") from None


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode(), PUBLIC)
    except OSError as error:
        raise EngineFault(f"--out {path} cannot be written: {reason(error)}") from None


def _check_unchanged(code: Sequence[CodeFile]) -> None:
    if (path := changed(code)) is not None:
        raise Unmeasured(
            f"the trainer changed while it was measured: {path} is not what it was; nothing is "
            "written, run it again"
        )


def _accelerators(args: argparse.Namespace) -> tuple[int, bool]:
    """How many train on a host, and whether they are GPUs.  Raises UsageFault."""
    cpus = os.cpu_count() or 1
    gpu_count = len(devices()) if args.gpus is not None or args.processes is None else 0
    if args.gpus is not None:
        if args.gpus > gpu_count:
            raise UsageFault(
                f"--gpus {args.gpus}: this machine has {gpu_count or 'no'} GPUs; a GPU that is not "
                "at hand is not guessed: run the same command on a machine that has it"
            )
        return args.gpus, True
    if args.processes is not None:
        if args.processes > cpus:
            raise UsageFault(f"--processes {args.processes}: from 1 to the {cpus} CPUs here")
        return args.processes, False
    return (gpu_count, True) if gpu_count else (1, False)


def _kinds(args: argparse.Namespace, count: int) -> tuple[RunKind, ...]:
    kinds = {kind.value: kind for kind in _NAMES}
    words = (args.runs or ",".join(kinds)).upper().split(",")
    if unknown := sorted(set(words) - set(kinds)):
        raise UsageFault(f"--runs {unknown[0]}: of {', '.join(kinds)}, with commas between them")
    requested = {kinds[word] for word in words}
    if not requested & _STEPS:
        raise UsageFault(
            f"--runs {args.runs} needs A or C: without timed steps there is nothing to plan with"
        )
    if args.runs and count == 1 and (needs := _SEVERAL & requested):
        names = ", ".join(sorted(kind.value for kind in needs))
        raise UsageFault(f"--runs {names} needs several: --processes or --gpus of 2 and more")
    return tuple(
        kind for kind in _NAMES if kind in requested and (count > 1 or kind not in _SEVERAL)
    )


def _job(request: Request) -> LocalJob:
    args, user_args = request
    programs = [program for program in (args.module_name, args.script, args.config) if program]
    if args.config:
        flags = {"module-name": args.module_name} if args.module_name else {}
        rulebook = rulebook_of(args)
        return cluster_job_of(args.config, flags, user_args, rulebook, args.package_path)[0]
    if len(programs) > 1:
        raise UsageFault("at most one of --module-name and --script can be given")
    source = Source(folder=Path.cwd(), package_path=args.package_path)
    if args.module_name:
        spec = plain_spec(PlainJob(module=args.module_name, args=user_args or ()))
    else:
        spec = _command_spec(_command(args, user_args or ()))
    return LocalJob(
        spec=spec,
        job_id="calibrate",
        source=source,
        folder=working_folder(source, args.module_name),
        say=say,
        is_local_program=not args.module_name,
    )


def _command(args: argparse.Namespace, user_args: Sequence[str]) -> tuple[str, ...]:
    if args.script:
        if not args.script.is_file():
            raise UsageFault(f"--script {args.script}: there is no such file")
        starter = "python" if args.script.suffix == ".py" else "bash"
        return (starter, str(args.script), *user_args)
    if not user_args:
        raise UsageFault(
            "nothing to run: give --module-name, --script or --config, or a command after --"
        )
    return tuple(user_args)


def _command_spec(command: tuple[str, ...]) -> JobSpec:
    program = Program(kind=ProgramKind.CONTAINER, command=command)
    group = ReplicaGroup(role=Role.PRIMARY, program=program)
    return JobSpec(dialect=Dialect.AIPLATFORM_V1, groups=(group,))


def _measure_all(
    bench: Bench, kinds: Sequence[RunKind], count: int, batch_flag: str
) -> list[RunMeasurement]:
    """The runs; those of steps must succeed, the others may fail with a word."""
    measurements: list[RunMeasurement] = []
    began = time.monotonic()
    for kind in kinds:
        if kind is RunKind.NO_EXCHANGE and not measurements[0].times.stack.startswith("torch"):
            note("run D is left out: exchange can be switched off in PyTorch's trainers alone")
            continue
        wide = kind in _SEVERAL
        note(f"run {kind.value}, {_NAMES[kind]}: {count if wide else 1} of {count}")
        may_repeat = time.monotonic() - began < _REPEATS_S
        try:
            measurements.append(
                _measure_run(bench, kind, count if wide else 1, may_repeat=may_repeat)
            )
        except EngineFault as fault:
            if kind in _STEPS:
                raise
            note(f"{fault}")
        if kind is RunKind.COMPUTE and batch_flag:
            measurements += _measure_half_batch(
                bench, batch_flag, measurements[-1].run.batch_per_accelerator
            )
    return measurements


def _measure_run(bench: Bench, kind: RunKind, count: int, *, may_repeat: bool) -> RunMeasurement:
    """A run; where it fails, with what it wrote last."""
    last_lines = LastLines()
    try:
        return measure(bench, kind, count, last_lines, may_repeat=may_repeat)
    except EngineFault:
        for line in last_lines.lines:
            note(line)
        raise


def _measure_half_batch(bench: Bench, flag: str, batch: float) -> list[RunMeasurement]:
    """Compute with half the batch, which tells how much of a step does not shrink with it."""
    half = int(batch / 2)
    if half < 1:
        note(f"{flag}: nobody has reported how large the batch is, or it is 1; give --batch")
        return []
    note(f"run A, compute: {flag}={half}")
    try:
        measurement = _measure_run(
            with_batch(bench, flag, half), RunKind.COMPUTE, 1, may_repeat=False
        )
    except EngineFault as fault:
        note(f"{fault}")
        return []
    if measurement.run.batch_per_accelerator >= batch:
        note(f"{flag}={half} has not changed the batch: that run is left out")
        return []
    return [measurement]


def _calibration(
    args: argparse.Namespace, measurements: Sequence[RunMeasurement], count: int, *, is_gpu: bool
) -> Calibration:
    timed = [
        measurement for measurement in measurements if measurement.run.kind is not RunKind.INPUT
    ]
    training = _training(args, timed[0], measurements)
    runs = [*(measurement.run for measurement in measurements), *_link(args)]
    return calibrated(training, _host(args, count, is_gpu=is_gpu), runs)


def _link(args: argparse.Namespace) -> Iterator[Run]:
    """A link that somebody else has measured."""
    if args.stream_gbps:
        link_bytes = args.stream_gbps * _GIGA / 8
        yield Run(kind=RunKind.LINK, accelerators=2, hosts=2, link_bytes=link_bytes)


def _host(args: argparse.Namespace, count: int, *, is_gpu: bool) -> HostKind:
    """The host; its link between GPUs is the data sheet's, for runs say what it is worth."""
    name = accelerator_of(devices()[0]) if is_gpu else "CPU"
    matches = (
        accelerator
        for accelerator in known_accelerators()
        if name in accelerator.enum_by_product.values()
    )
    gpu = next(matches, None) if count > 1 else None
    return HostKind(
        machine_type=args.machine_type,
        accelerator=name,
        per_host=count,
        cpus=os.cpu_count() or 0,
        inside=gpu.inside if gpu else "",
        inside_bytes=gpu.inside_gbytes * _GIGA if gpu else 0.0,
        network=args.network,
        network_gbps=args.network_gbps,
    )


def _training(
    args: argparse.Namespace, first: RunMeasurement, measurements: Sequence[RunMeasurement]
) -> Training:
    times = first.times
    parameters = args.params or times.parameters
    is_fed = (
        any(measurement.run.kind is RunKind.INPUT for measurement in measurements)
        or first.run.wait_share > 0
    )
    return Training(
        model=args.module_name or (args.script.name if args.script else ""),
        parameters=parameters,
        largest=times.largest,
        gradient_bytes=times.gradient_bytes or parameters * _BYTES,
        batch_per_accelerator=first.run.batch_per_accelerator or 1.0,
        precision=args.precision,
        strategy=Strategy(args.strategy),
        stack=args.stack or times.stack,
        data="real" if is_fed else "synthetic",
        asynchronous=args.asynchronous,
    )


def _places(args: argparse.Namespace) -> list[Path]:
    """Where the trainer's code lies."""
    places = [path for path in (args.package_path, args.script) if path]
    if args.module_name and not args.package_path:
        name = args.module_name.split(".")[0]
        places += [path for path in (Path(name), Path(f"{name}.py")) if path.exists()]
    return places


def sentences(calibration: Calibration) -> Iterator[str]:
    """What the runs mean, a sentence each."""
    # the first A is that of the whole batch
    runs = {run.kind: run for run in reversed(calibration.runs)}
    one, whole, hosts = map(runs.get, (RunKind.COMPUTE, RunKind.HOST, RunKind.TWO_HOSTS))
    unit = "samples/s" if calibration.training.batch_per_accelerator > 1 else "steps/s"
    if one:
        rate = _rate(calibration, one)
        yield f"One does {rate:.4g} {unit}: a step takes {1000 * one.step_s:.3g} ms."
    if one and whole:
        rate = _rate(calibration, whole)
        gain = rate / _rate(calibration, one)
        yield f"{whole.accelerators} on one host do {rate:.4g}: {gain:.2f} times one."
    if hosts and (host := whole or one):
        gain = _rate(calibration, hosts) / _rate(calibration, host)
        yield f"{hosts.hosts} hosts do {_rate(calibration, hosts):.4g}: {gain:.2f} times one host."
    yield from _input(calibration, whole or one, runs.get(RunKind.INPUT))
    if any(run.noisy for run in calibration.runs):
        yield "Noisy: the machine did other work meanwhile, so intervals are wider."
    yield from _list_missing(calibration, runs)


def _rate(calibration: Calibration, run: Run) -> float:
    batch = run.batch_per_accelerator or calibration.training.batch_per_accelerator
    return run.accelerators * batch / run.step_s


def _input(calibration: Calibration, run: Run | None, alone: Run | None) -> Iterator[str]:
    if run is None:
        return
    fed = alone.samples_per_s if alone else 0.0
    if bound := of_run(run, fed, calibration.training.batch_per_accelerator):
        yield (
            f"Bound by input: {bound.evidence}. What helps: {bound.help}; more accelerators on a "
            "host do not."
        )
    elif fed:
        times = fed / _rate(calibration, run)
        yield f"Input alone delivers {fed:.4g} samples/s, {times:.1f} times that."


def _list_missing(calibration: Calibration, runs: dict[RunKind, Run]) -> Iterator[str]:
    if RunKind.INPUT not in runs:
        yield "Not measured: the input alone (B); plans assume that hosts can feed their steps."
    if not calibration.training.gradient_bytes and RunKind.TWO_HOSTS not in runs:
        yield "Nobody said how large the gradient is (--params): no plan for several hosts follows."
    if not calibration.host.network_gbps and not {RunKind.LINK, RunKind.TWO_HOSTS} & set(runs):
        yield "Not measured: a link between hosts; give --network-gbps to plan for several."


def _text(calibration: Calibration, lines: Sequence[str], out: Path) -> str:
    rows = [
        (
            run.kind.value,
            _NAMES.get(run.kind, "several hosts"),
            run.accelerators,
            run.steps,
            f"{1000 * run.step_s:.3g}" if run.step_s else "",
            f"{1000 * run.step_s_p10:.3g} to {1000 * run.step_s_p90:.3g}" if run.step_s else "",
            f"{run.samples_per_s or _rate(calibration, run):.4g}",
        )
        for run in calibration.runs
        if run.kind is not RunKind.LINK
    ]
    headers = ("RUN", "WHAT", "ACCELERATORS", "STEPS", "MS", "P10 TO P90", "SAMPLES/S")
    return "\n".join(["", table(headers, rows), "", *lines, f"written: {out}"])


def _as_json(calibration: Calibration, lines: Sequence[str], out: Path) -> dict[str, object]:
    return {"file": str(out), "calibration": asdict(calibration), "sentences": list(lines)}
