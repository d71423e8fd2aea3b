"""``trainshed plan calibrate``: measures a trainer in short runs, and writes a calibration file.

The runs are on this machine, or with ``--on-server`` short jobs of a server (``server_runs``).
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import note, print_result, table
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.workbench.calibrate_request import CalibrateRequest

if TYPE_CHECKING:
    from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
    from trainshed.workbench.local_run import LocalJob

#: The trainer could not be measured: it failed, reported no steps, or changed meanwhile.
EXIT_UNMEASURED: Final = 3

EXAMPLE = """\
  trainshed plan calibrate --module-name trainer.task --package-path trainer -- --epochs 100
  trainshed plan calibrate --script task.py --processes 2 --out here.toml
  trainshed plan calibrate --step-pattern 'step (?P<step>[0-9]+)' --batch 64 -- python task.py
  trainshed plan calibrate --on-server job.yaml --hosts 1,2 --seconds 90 --out cluster.toml"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Measures an unchanged trainer in runs of some seconds each: on this machine one "
        "process (A), its input alone (B), all processes or GPUs of the host (C), and the same "
        "without exchange (D); with --on-server one short job for each count of hosts. Writes a "
        "file that trainshed plan reads.",
        example=EXAMPLE,
        usage=f"{prog} [FILE | --module-name M | --script FILE] [flags] [-- ARGS ...]",
    )
    parser.own_flags = ("module-name", "package-path")
    parser.check = _check
    flags.add_fields(parser, CalibrateRequest)
    flags.add_run_flags(parser, dry_run=False)
    flags.add_catalog_flags(parser)
    flags.add_client_flags(parser, located=True, data_dir=False)
    parser.add_argument_group("-- ARGS", "The arguments of the program, or the whole command.")
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    """Refuse flags that contradict each other."""
    for fault in flags.to_dataclass(CalibrateRequest, args).faults():
        parser.error(fault)


def run(request: flags.Request) -> int:
    """Make the runs, write the file, and print a summary.  Raises UsageFault, EngineFault."""
    from trainshed.cli.connecting import context_of
    from trainshed.cli.local.run_job import host_of_job
    from trainshed.cli.plan.server_runs import calibrate_on_server
    from trainshed.workbench.calibrating import calibrate
    from trainshed.workbench.short_runs import Unmeasured

    args, user_args = request
    wanted = flags.to_dataclass(CalibrateRequest, args)
    if wanted.on_server and user_args is not None:
        raise UsageFault("-- ARGS do not go with --on-server: the job of FILE has its own program")
    job = None if wanted.on_server else _job_of(wanted, request)
    _check_output_file(wanted.out)
    try:
        if job is None:
            calibration = calibrate_on_server(wanted, context_of(args), rulebook_of(args))
        else:
            calibration = calibrate(wanted, job, host_of_job(args, job), note)
        _write_calibration(calibration, wanted, args.format)
    except Unmeasured as fault:
        print_error(str(fault))
        return EXIT_UNMEASURED
    return 0


def _job_of(wanted: CalibrateRequest, request: flags.Request) -> "LocalJob":
    """Return the trainer as a job of this machine.  Raises UsageFault, Fault."""
    from trainshed.service.starts.programs import Source, working_folder
    from trainshed.workbench.local_run import LocalJob
    from trainshed.workbench.plain_train import PlainJob, command_spec, plain_spec, say

    module, package_path, user_args = wanted.module_name, wanted.package_path, request.user_args
    if wanted.file:
        return _job_of_file(wanted.file, wanted, request)
    source = Source(folder=Path.cwd(), package_path=package_path)
    if module:
        spec = plain_spec(PlainJob(module=module, args=user_args or ()))
    else:
        spec = command_spec(_command(wanted.script, user_args or ()))
    return LocalJob(
        spec=spec,
        job_id="calibrate",
        source=source,
        folder=working_folder(source, module),
        say=say,
        is_local_program=not module,
    )


def _job_of_file(file: str, wanted: CalibrateRequest, request: flags.Request) -> "LocalJob":
    """Return the job of a file of either dialect.  Raises UsageFault, Fault."""
    from trainshed.cli.local.custom_local_run import custom_job_of
    from trainshed.cli.local.local_train import cluster_job_of
    from trainshed.wire.detect import DocumentKind, kind_of
    from trainshed.workbench.custom_run import CustomFlags, custom_run
    from trainshed.workbench.documents import read_one

    rulebook, package = rulebook_of(request.args), wanted.package_path
    is_custom = kind_of(read_one(file).content) in {
        DocumentKind.CUSTOM_JOB,
        DocumentKind.CUSTOM_JOB_SPEC,
    }
    if not is_custom:
        submit_flags = {"module-name": wanted.module_name} if wanted.module_name else {}
        return cluster_job_of(file, submit_flags, request.user_args, rulebook, package)[0]
    folder = str(package.absolute().parent) if package else None
    words = {"python-module": wanted.module_name, "local-package-path": folder}
    custom_flags = CustomFlags(words=words, user_args=request.user_args)
    return custom_job_of(custom_run(file, custom_flags, rulebook))


def _command(script: Path | None, user_args: Sequence[str]) -> tuple[str, ...]:
    if script:
        if not script.is_file():
            raise UsageFault(f"--script must be a file that exists, got {script}")
        return ("python" if script.suffix == ".py" else "bash", str(script), *user_args)
    if not user_args:
        raise UsageFault(
            "nothing to run: give FILE, --module-name or --script, or a command after --"
        )
    return tuple(user_args)


def _check_output_file(path: Path) -> None:
    """Raise UsageFault if the file cannot be written, before the runs start."""
    import tempfile

    from trainshed.storage.folders import reason

    try:
        if path.exists() and not path.is_file():
            raise UsageFault(f"--out must be a file, got {path}")
        # ``write_file`` first writes a temporary file with a name of this length
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageFault(f"--out {path} cannot be written: {reason(error)}") from None


def _write_calibration(calibration: "Calibration", wanted: CalibrateRequest, form: str) -> None:
    """Write the file, and print a summary.  Raises EngineFault, Unmeasured."""
    from trainshed.files.server_files import PUBLIC, write_file
    from trainshed.planning.scaling.calibration_file import read, written
    from trainshed.storage.folders import reason
    from trainshed.workbench.short_runs import Unmeasured

    text, out = written(calibration), wanted.out
    try:
        read(text)
    except ValueError as error:
        raise Unmeasured(f"the trainer reported impossible values: {error}") from None
    if why := _better(out, calibration):
        raise Unmeasured(f"--out {out} was not overwritten: {why}")
    try:
        write_file(out, text.encode(), PUBLIC)
    except OSError as error:
        raise EngineFault(f"--out {out} cannot be written: {reason(error)}") from None
    lines = list(sentences(calibration))
    document = {"file": str(out), "calibration": asdict(calibration), "sentences": lines}
    print_result(form, document, _text(calibration, [*lines, *_list_next_steps(wanted)]))


def _better(out: Path, calibration: "Calibration") -> str:
    """Return why the file is a better calibration of the same trainer; empty if it is none."""
    from trainshed.planning.scaling.calibration_file import read

    if not calibration.doubt or not out.is_file():
        return ""
    try:
        earlier = read(out.read_text())
    except (OSError, ValueError):  # a calibration that no plan can use
        return ""
    is_same_trainer = earlier.trainer_digest == calibration.trainer_digest
    if not is_same_trainer or earlier.doubt >= calibration.doubt:
        return ""
    faults = [*_describe_faults(calibration)]
    return (
        f"the calibration of {earlier.date} in it is of the same trainer and better. {faults[0]} "
        "Run the command again on a quiet machine, or write another file: --out FILE"
    )


def _describe_faults(calibration: "Calibration") -> Iterator[str]:
    """Yield a sentence about unsteady steps, and one about a busy machine."""
    from trainshed.planning.amounts import figure

    for run in calibration.runs:
        if run.is_unsteady:
            low, high = 1000 * run.step_s_p10, 1000 * run.step_s_p90
            yield (
                f"Steps of run {run.kind.value} took {figure(low)} to {figure(high)} ms "
                "(P10 to P90): intervals are as wide."
            )
    if any(run.noisy for run in calibration.runs):
        yield "The machine did other work during the runs, so intervals are wider."


def sentences(calibration: "Calibration") -> Iterator[str]:
    """Yield a sentence about each result of the runs."""
    from trainshed.planning.amounts import figure
    from trainshed.planning.scaling.calibration import RunKind

    # the first run A uses the whole batch
    runs = {run.kind: run for run in reversed(calibration.runs)}
    one, whole, hosts = map(runs.get, (RunKind.COMPUTE, RunKind.HOST, RunKind.TWO_HOSTS))
    unit = "samples/s" if calibration.training.batch_per_accelerator > 1 else "steps/s"
    if one:
        rate = one.rate_of(calibration.training)
        step_ms = figure(1000 * one.step_s)
        yield f"One process does {figure(rate)} {unit}: a step takes {step_ms} ms."
    if one and whole:
        rate = whole.rate_of(calibration.training)
        gain = rate / one.rate_of(calibration.training)
        yield (
            f"{whole.accelerators} processes on one host do {figure(rate)} {unit}: {gain:.2f} "
            "times one process."
        )
    if hosts and (host := whole or one):
        gain = hosts.rate_of(calibration.training) / host.rate_of(calibration.training)
        rate = hosts.rate_of(calibration.training)
        yield f"{hosts.hosts} hosts do {figure(rate)} {unit}: {gain:.2f} times one host."
    yield from _describe_micro_batches(calibration)
    yield from _describe_input(calibration, whole or one, runs.get(RunKind.INPUT))
    yield from _describe_faults(calibration)
    yield from _list_missing(calibration, runs)


def _describe_micro_batches(calibration: "Calibration") -> Iterator[str]:
    training = calibration.training
    if training.micro_batches > 1:
        samples = training.batch_per_accelerator / training.micro_batches
        yield f"A step has {training.micro_batches} micro batches of {samples:,.12g} samples."


def _describe_input(
    calibration: "Calibration", run: "Run | None", input_run: "Run | None"
) -> Iterator[str]:
    from trainshed.planning.amounts import figure
    from trainshed.planning.scaling.input_bound import of_run

    if run is None:
        return
    input_rate = input_run.samples_per_s if input_run else 0.0
    if bound := of_run(run, input_rate, calibration.training):
        yield (
            f"Bound by input: {bound.evidence}. This helps: {bound.help}; more accelerators on a "
            "host do not help."
        )
    elif input_rate:
        times = input_rate / run.rate_of(calibration.training)
        yield (
            f"The input alone delivers {figure(input_rate)} samples/s, {times:,.1f} times as many "
            "as training uses."
        )


def _list_missing(calibration: "Calibration", runs: "dict[RunKind, Run]") -> Iterator[str]:
    from trainshed.planning.scaling.calibration import RunKind

    if RunKind.INPUT not in runs:
        yield "The input alone (B) was not measured; plans assume that the input is fast enough."
    if not calibration.training.gradient_bytes and RunKind.TWO_HOSTS not in runs:
        yield "The size of the gradient is unknown; give --params to plan for several hosts."
    if not calibration.host.network_gbps and not {RunKind.LINK, RunKind.TWO_HOSTS} & set(runs):
        yield (
            "No link between hosts was measured: plans for several hosts are ranges, until "
            "--stream-gbps or --network-gbps is given here or to trainshed plan."
        )


def _list_next_steps(wanted: CalibrateRequest) -> Iterator[str]:
    yield f"written: {wanted.out}"
    file = [wanted.file] if wanted.file else []
    plan = shlex.join(["trainshed", "plan", *file, "--calibration", str(wanted.out)])
    yield f"next: {plan}"


def _text(calibration: "Calibration", lines: Sequence[str]) -> str:
    from trainshed.planning.amounts import figure
    from trainshed.planning.scaling.calibration import RunKind
    from trainshed.workbench.calibrating import RUN_NAMES

    rows = [
        (
            run.kind.value,
            RUN_NAMES.get(run.kind, "several hosts"),
            run.accelerators,
            run.steps,
            figure(1000 * run.step_s) if run.step_s else "",
            f"{figure(1000 * run.step_s_p10)} to {figure(1000 * run.step_s_p90)}"
            if run.step_s
            else "",
            figure(run.samples_per_s or run.rate_of(calibration.training)),
        )
        for run in calibration.runs
        if run.kind is not RunKind.LINK
    ]
    headers = ("RUN", "WHAT", "ACCELERATORS", "STEPS", "MS", "P10 TO P90", "SAMPLES/S")
    return "\n".join(["", table(headers, rows), "", *lines])
