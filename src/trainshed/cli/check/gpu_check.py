"""``trainshed gpu-check``: measures whether GPUs speed up a trainer enough for their price.

The trainer runs unchanged: for the run on the CPU its GPUs are hidden.  Each run is as short as in
a calibration, and the local engine reserves the GPUs.  If no hook can count the trainer's steps,
the trainer must end with a line of JSON with ``seconds``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flag_values, flags
from trainshed.cli.terminal import note, print_result, table
from trainshed.model.faults import EngineFault, UsageFault

if TYPE_CHECKING:
    from trainshed.engines.local.devices.gpus import GpuDevice
    from trainshed.planning.scaling.devices_compared import Prices, Rate
    from trainshed.workbench.local_run import Host, LocalJob

#: Seconds until the first step, or until the end of a trainer whose steps hooks cannot count.
_START_S_MAX: Final = 600.0
#: The factor by which other load on the machine enlarges the uncertainty.
_NOISE_FACTOR: Final = 3.0


EXAMPLE = """\
  trainshed gpu-check --module-name steps --package-path examples/gpu-check -- --steps 20"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Measures the steps of an unchanged trainer with the GPUs hidden and, if the "
        "machine has GPUs, with one and with all of them, and says whether the GPUs are worth "
        "their price. If hooks cannot count the trainer's steps, the trainer must end with a line "
        "of JSON with seconds.",
        example=EXAMPLE,
        usage=f"{prog} --module-name MODULE [flags] [-- USER_ARGS ...]",
    )
    parser.own_flags = ("module-name", "package-path")
    add = flags.adder(parser)
    add("--module-name MODULE", "Module to run", required=True)
    add("--package-path DIR", "Package of the module", type=Path)
    add(
        "--device-flag FLAG",
        "The trainer's own flag for its device, if it uses no GPU without it: "
        "--device-flag=--device passes --device=cpu and --device=cuda",
        default="",
    )
    add("--accelerator TYPE", "Required GPU type; the command refuses a machine without it")
    add("--cpu-price P", "Price per hour of a machine without GPUs", type=flag_values.above_zero)
    add(
        "--gpu-price P",
        "Price per hour of a machine with one GPU, in the same currency",
        type=flag_values.above_zero,
    )
    add(
        "--seconds S",
        "Longest time for the steps of a run; default: 15",
        type=flag_values.above_zero,
        default=15.0,
    )
    flags.add_format(parser)
    flags.add_run_flags(parser, dry_run=False)
    flags.add_gcloud_wide(parser)
    return parser


def run(request: flags.Request) -> int:
    """Measure and print; return 0 for every result.

    Raises UsageFault, and EngineFault if a run fails or reports neither steps nor seconds.
    """
    from trainshed.cli.local.run_job import host_of_job
    from trainshed.planning.scaling.devices_compared import decision

    args, user_args = request
    flag = args.device_flag
    if flag and any(word.split("=")[0] == flag for word in user_args or ()):
        raise UsageFault(f"gpu-check itself passes {flag} to the trainer; leave it out after --")
    prices, gpus = _prices(args.cpu_price, args.gpu_price), list_gpus()
    _refuse_absent(args.accelerator, [gpu.name for gpu in gpus])

    def measure_rate(device: str, count: int, name: str) -> "Rate":
        words = (*(user_args or ()), *([f"{flag}={device}"] if flag else ()))
        job = _job(args.module_name, words, args.package_path, device)
        return _measure(job, host_of_job(args, job), args.seconds, device, (count, name))

    cpu = measure_rate("cpu", 1, "CPU")
    counts = sorted({1, len(gpus)}) if gpus else []
    rates = [measure_rate("cuda", count, gpus[0].name) for count in counts]
    if rates and any(not rate.samples for rate in (cpu, *rates)):
        note("comparing steps, because not every run reported how many samples a step has")
    sentences = list(decision(cpu, rates, prices))
    print_result(args.format, _as_json(cpu, rates, sentences), _text(cpu, rates, sentences))
    return 0


def list_gpus() -> "Sequence[GpuDevice]":
    from trainshed.engines.local.devices.find import devices

    return devices()


def _prices(cpu: float | None, gpu: float | None) -> "Prices | None":
    from trainshed.planning.scaling.devices_compared import Prices

    if cpu is None and gpu is None:
        return None
    if cpu is None or gpu is None:
        missing = "--cpu-price" if cpu is None else "--gpu-price"
        raise UsageFault(f"{missing} is missing; give the prices of both machines, or none")
    return Prices(cpu=cpu, one_gpu=gpu)


def _refuse_absent(accelerator: str | None, names: Sequence[str]) -> None:
    """Refuse a GPU that this machine does not have.  Raises UsageFault."""
    if accelerator and not any(
        _normalize_name(accelerator) in _normalize_name(name) for name in names
    ):
        raise UsageFault(
            f"--accelerator must be a GPU of this machine ({', '.join(names) or 'it has none'}), "
            f"got {accelerator}; run the same command on a machine with this GPU"
        )


def _normalize_name(name: str) -> str:
    """Return a form of a GPU's name that is equal for the catalog and the driver."""
    words = name.upper().replace("_", " ").replace("-", " ").split()
    return " ".join(word for word in words if word not in {"NVIDIA", "TESLA"})


def _measure(
    job: "LocalJob", host: "Host", steps_s: float, device: str, devices: tuple[int, str]
) -> "Rate":
    """Measure the rate of ``devices``, a count and a name.  Raises EngineFault."""
    from trainshed.planning.scaling.calibration import RunKind
    from trainshed.planning.scaling.devices_compared import Rate
    from trainshed.planning.scaling.step_statistics import summarize_times
    from trainshed.workbench.last_lines import LastLines
    from trainshed.workbench.short_runs import Bench, NoSteps, RunLimits, measure

    count, name = devices
    last_lines = LastLines()
    bench = Bench(
        job=job,
        host=host,
        limits=RunLimits(steps_s=steps_s, start_s=_START_S_MAX),
        is_gpu=device == "cuda",
    )
    kind = RunKind.COMPUTE if count == 1 else RunKind.HOST
    note(f"{count} x {name}")
    try:
        measurement = measure(bench, kind, count, last_lines)
    except NoSteps as fault:
        if last_lines.seconds is None:
            raise EngineFault(
                f"the run on {count} x {name} ended ({fault.message}), but hooks counted no "
                'steps, and the trainer printed no line of JSON with "seconds": have it call '
                "trainshed_trainer.progress(step)"
            ) from None
        return Rate(name=name, count=count, seconds=last_lines.seconds)
    except EngineFault as fault:
        for line in last_lines.lines:
            note(line)
        raise EngineFault(f"the run on {count} x {name} failed: {fault}") from None
    if device == "cuda" and measurement.times.device == "cpu":
        raise EngineFault(
            f"the trainer did not use the {name}: its parameters were on the CPU; name its own "
            "flag for its device, such as --device-flag=--device"
        )
    observation = summarize_times(measurement.times)
    return Rate(
        name=name,
        count=count,
        seconds=measurement.run.step_s,
        samples=measurement.run.batch_per_accelerator,
        uncertainty=observation.uncertainty * (_NOISE_FACTOR if measurement.run.noisy else 1.0)
        if observation
        else None,
    )


def _job(module: str, words: tuple[str, ...], package_path: Path | None, device: str) -> "LocalJob":
    from trainshed.service.starts.programs import Source, working_folder
    from trainshed.workbench.local_run import LocalJob
    from trainshed.workbench.plain_train import PlainJob, plain_spec, say

    source = Source(folder=Path.cwd(), package_path=package_path)
    return LocalJob(
        spec=plain_spec(PlainJob(module=module, args=words)),
        job_id=f"gpu_check_{device}",
        source=source,
        folder=working_folder(source, module),
        say=say,
    )


def _text(cpu: "Rate", gpus: "Sequence[Rate]", sentences: Sequence[str]) -> str:
    headers = ("DEVICE", "COUNT", "SECONDS", "SPEEDUP", "80 %")
    return "\n".join(["", table(headers, list(_rows(cpu, gpus))), *sentences])


def _rows(cpu: "Rate", gpus: "Sequence[Rate]") -> Iterator[tuple[object, ...]]:
    yield (cpu.name, 1, f"{cpu.seconds:.3g}", "1", "")
    for rate in gpus:
        gain = rate.times(cpu)
        is_bounded = None not in {cpu.uncertainty, rate.uncertainty}
        bounds = f"{gain.low:.3g} to {gain.high:.3g}" if is_bounded else "unknown"
        yield (rate.name, rate.count, f"{rate.seconds:.3g}", f"{gain.point:.3g}", bounds)


def _as_json(cpu: "Rate", gpus: "Sequence[Rate]", sentences: Sequence[str]) -> dict[str, object]:
    first = gpus[0] if gpus else None
    return {
        "cpu_seconds": cpu.seconds,
        "gpu_seconds": first.seconds if first else None,
        "gpu": first.name if first else None,
        "speedup": first.times(cpu).point if first else None,
        "speedups": [{"gpus": rate.count, **asdict(rate.times(cpu))} for rate in gpus],
        "verdict": " ".join(sentences),
    }
