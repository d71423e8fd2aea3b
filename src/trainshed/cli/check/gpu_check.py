"""``trainshed gpu-check``: whether GPUs help this model, how many, and at which price.

The trainer takes ``--device cpu`` or ``--device cuda``.  These are the short runs of a calibration
on one device and the other; the local engine holds the GPUs.  A trainer whose steps nobody sees
ends with one line of JSON that has ``seconds``.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from trainshed.cli.flags import Request
from trainshed.cli.local.run_job import host_of_job
from trainshed.cli.terminal import answer, note, table
from trainshed.engines.local.devices.find import devices
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.planning.scaling.calibration import RunKind
from trainshed.planning.scaling.devices_compared import Prices, Rate, decision
from trainshed.planning.scaling.steps_seen import steps_seen
from trainshed.service.starts.programs import Source, working_folder
from trainshed.workbench.last_lines import LastLines
from trainshed.workbench.local_run import LocalJob
from trainshed.workbench.plain_train import PlainJob, plain_spec, say
from trainshed.workbench.short_runs import Bench, NoSteps, RunLimits, measure

#: A trainer that only says at its end how long it took has so long, in seconds.
_UNSEEN_S: Final = 600.0
#: A busy machine's figures are that many times less sure.
_NOISY: Final = 3.0


def run(request: Request) -> int:
    """Measure and say; exit code 0 whatever the answer is.

    Raises UsageFault, and EngineFault when a run fails or tells neither steps nor seconds.
    """
    if any(word.split("=")[0] == "--device" for word in request.user_args or ()):
        raise UsageFault("--device is what gpu-check itself gives the trainer; leave it out")
    prices, gpus = _prices(request.args), devices()
    _refuse_absent(request.args.accelerator, [gpu.name for gpu in gpus])
    cpu = _rate(request, "cpu", 1, "CPU")
    counts = sorted({1, len(gpus)}) if gpus else []
    rates = [_rate(request, "cuda", count, gpus[0].name) for count in counts]
    if rates and any(not rate.samples for rate in (cpu, *rates)):
        note("steps are compared, for nobody has reported how many samples they hold")
    sentences = list(decision(cpu, rates, prices))
    answer(request.args.format, _as_json(cpu, rates, sentences), _text(cpu, rates, sentences))
    return 0


def _prices(args: argparse.Namespace) -> Prices | None:
    prices = {"--cpu-price": args.cpu_price, "--gpu-price": args.gpu_price}
    missing = [flag for flag, price in prices.items() if price is None]
    if len(missing) == len(prices):
        return None
    if missing:
        raise UsageFault(f"{missing[0]} is missing: prices of both machines are compared, or none")
    return Prices(cpu=args.cpu_price, one_gpu=args.gpu_price)


def _refuse_absent(accelerator: str | None, names: Sequence[str]) -> None:
    """What a GPU would do that is not at hand is not guessed.  Raises UsageFault."""
    if accelerator and not any(
        _normalize_name(accelerator) in _normalize_name(name) for name in names
    ):
        raise UsageFault(
            f"--accelerator {accelerator}: this machine has {', '.join(names) or 'no GPU'}, and "
            "nothing measured here tells what another would do: run the same command on a "
            "machine with it"
        )


def _normalize_name(name: str) -> str:
    """The catalog's words for cards and the driver's differ in more than case."""
    words = name.upper().replace("_", " ").replace("-", " ").split()
    return " ".join(word for word in words if word not in {"NVIDIA", "TESLA"})


def _rate(request: Request, device: str, count: int, name: str) -> Rate:
    """Of so many devices.  Raises EngineFault."""
    last_lines = LastLines()
    job = _job(request, device)
    bench = Bench(
        job=job,
        host=host_of_job(request.args, job),
        limits=RunLimits(steps_s=request.args.seconds, start_s=_UNSEEN_S),
        is_gpu=device == "cuda",
    )
    kind = RunKind.COMPUTE if count == 1 else RunKind.HOST
    note(f"{count} x {name}: --device {device}")
    try:
        measurement = measure(bench, kind, count, last_lines)
    except NoSteps as fault:
        return _read_reported_rate(last_lines, device, count, name, fault)
    except EngineFault as fault:
        for line in last_lines.lines:
            note(line)
        raise EngineFault(f"the run with --device {device} failed: {fault}") from None
    observation = steps_seen(measurement.times)
    return Rate(
        name=name,
        count=count,
        seconds=measurement.run.step_s,
        samples=measurement.run.batch_per_accelerator,
        uncertainty=observation.uncertainty * (_NOISY if measurement.run.noisy else 1.0)
        if observation
        else None,
    )


def _read_reported_rate(
    last_lines: LastLines, device: str, count: int, name: str, fault: NoSteps
) -> Rate:
    if last_lines.seconds is None:
        raise EngineFault(
            f"the run with --device {device} ended ({fault.message}) without steps that anybody "
            'sees, and without a line of JSON that has "seconds"'
        )
    return Rate(name=name, count=count, seconds=last_lines.seconds)


def _job(request: Request, device: str) -> LocalJob:
    args, user_args = request
    plain = PlainJob(module=args.module_name, args=(*(user_args or ()), "--device", device))
    source = Source(folder=Path.cwd(), package_path=args.package_path)
    return LocalJob(
        spec=plain_spec(plain),
        job_id=f"gpu_check_{device}",
        source=source,
        folder=working_folder(source, args.module_name),
        say=say,
    )


def _text(cpu: Rate, gpus: Sequence[Rate], sentences: Sequence[str]) -> str:
    headers = ("DEVICE", "COUNT", "SECONDS", "SPEEDUP", "80 %")
    return "\n".join(["", table(headers, list(_rows(cpu, gpus))), *sentences])


def _rows(cpu: Rate, gpus: Sequence[Rate]) -> Iterator[tuple[object, ...]]:
    yield (cpu.name, 1, f"{cpu.seconds:.3g}", "1", "")
    for rate in gpus:
        gain = rate.times(cpu)
        is_bounded = None not in {cpu.uncertainty, rate.uncertainty}
        bounds = f"{gain.low:.3g} to {gain.high:.3g}" if is_bounded else "unknown"
        yield (rate.name, rate.count, f"{rate.seconds:.3g}", f"{gain.point:.3g}", bounds)


def _as_json(cpu: Rate, gpus: Sequence[Rate], sentences: Sequence[str]) -> dict[str, object]:
    first = gpus[0] if gpus else None
    return {
        "cpu_seconds": cpu.seconds,
        "gpu_seconds": first.seconds if first else None,
        "gpu": first.name if first else None,
        "speedup": first.times(cpu).point if first else None,
        "speedups": [{"gpus": rate.count, **asdict(rate.times(cpu))} for rate in gpus],
        "verdict": " ".join(sentences),
    }
