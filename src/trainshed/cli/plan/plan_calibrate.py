"""``trainshed plan calibrate``: short runs of a trainer, in words and in the file they make."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import answer, note, table
from trainshed.model.faults import EngineFault, UsageFault

if TYPE_CHECKING:
    from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
    from trainshed.workbench.calibrating import CalibrateRequest
    from trainshed.workbench.local_run import LocalJob

#: What the trainer does cannot be known: it failed, reported no steps, or changed meanwhile.
EXIT_UNMEASURED: Final = 3

EXAMPLE = """\
  trainshed plan calibrate --module-name trainer.task --package-path trainer -- --epochs 100
  trainshed plan calibrate --script task.py --processes 2 --out here.toml
  trainshed plan calibrate --step-pattern 'step (?P<step>[0-9]+)' --batch 64 -- python task.py"""

STRATEGIES = (
    "allreduce", "allreduce-cpu", "fsdp", "ps-cpu", "ps-gpu", "ps-distributed", "ps-naive",
)  # fmt: skip
#: Those that the planner tells apart, and that its tables have.
PRECISIONS = ("fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "fp16", "bf16", "fp8")
#: Of these, those whose workers may go on without each other.
ASYNCHRONOUS = ("ps-distributed", "ps-naive")


def parser(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan calibrate``."""
    parser = flags.Parser(
        prog,
        summary="Measures a trainer on this machine, unchanged, in runs of some seconds each: its "
        "compute (A), its input alone (B), all processes or GPUs of the host (C), and these "
        "without exchange (D). Writes a file that trainshed plan reads.",
        example=EXAMPLE,
        usage=f"{prog} [--module-name M | --script FILE | --config FILE] [flags] [-- ARGS ...]",
    )
    parser.own = ("module-name", "package-path")
    parser.check = _check
    program = parser.add_argument_group("program; without one of these, the words after --")
    program.add_argument("--module-name", metavar="MODULE", help="Module to run")
    program.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    program.add_argument("--script", metavar="FILE", type=Path, help="Python file or shell script")
    program.add_argument("--config", metavar="FILE", help="Job file of AI Platform")
    _add_runs(parser)
    _add_model(parser)
    _add_host(parser)
    flags.add_format(parser)
    flags.add_run_flags(parser, dry_run=False)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    parser.add_argument_group("-- ARGS", "The program's arguments, or all of its command.")
    return parser


def _add_runs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("runs")
    count = group.add_mutually_exclusive_group()
    count.add_argument(
        "--processes",
        metavar="N",
        type=flags.whole_number(1),
        help="Processes of a host that train on its CPUs",
    )
    count.add_argument(
        "--gpus", metavar="N", type=flags.whole_number(1), help="GPUs of a host, one a process"
    )
    group.add_argument(
        "--runs", metavar="A,B,C,D", default="", help="Which to make; default: all that tell"
    )
    group.add_argument(
        "--seconds",
        metavar="S",
        type=flags.above_zero,
        default=15.0,
        help="Longest time of a run's steps",
    )
    group.add_argument(
        "--start-seconds",
        metavar="S",
        type=flags.above_zero,
        default=120.0,
        help="And to its first step",
    )
    group.add_argument(
        "--step-pattern", metavar="REGEX", help="Lines that tell steps, with (?P<step>"
    )
    group.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("calibration.toml"), help="File to write"
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model; hooks find most of it")
    group.add_argument(
        "--batch",
        metavar="N",
        type=flags.above_zero,
        default=0.0,
        help="Samples of a process in a step",
    )
    group.add_argument(
        "--batch-flag",
        metavar="FLAG",
        default="",
        help="The program's own, such as --batch-size: A is made with half of it too",
    )
    group.add_argument(
        "--params",
        dest="parameters",
        metavar="N",
        type=flags.above_zero,
        default=0.0,
        help="Trained parameters",
    )
    group.add_argument("--precision", choices=PRECISIONS, default="fp32", help="Of its compute")
    group.add_argument("--strategy", choices=STRATEGIES, default="allreduce", help="Of exchange")
    group.add_argument(
        "--asynchronous",
        action="store_true",
        help="Workers do not wait for each other, with parameter servers",
    )
    group.add_argument("--stack", metavar="NAME", default="", help="Framework and version")


def _add_host(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts like this one")
    group.add_argument("--machine-type", metavar="TYPE", default="", help="What they are called")
    group.add_argument(
        "--network-gbps",
        metavar="GBPS",
        type=flags.above_zero,
        default=0.0,
        help="Link between them, nominal",
    )
    group.add_argument(
        "--stream-gbps",
        metavar="GBPS",
        type=flags.above_zero,
        default=0.0,
        help="What a stream over that link gets, as iperf3 says: run E",
    )
    group.add_argument("--network", choices=("tcp", "rdma"), default="tcp", help="How it is used")


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    """A stream is slower than the link that carries it, and workers that form a ring wait."""
    if args.asynchronous and args.strategy not in ASYNCHRONOUS:
        parser.error(f"--asynchronous needs --strategy {' or '.join(ASYNCHRONOUS)}")
    if 0 < args.network_gbps < args.stream_gbps:
        parser.error(
            f"--stream-gbps {args.stream_gbps:g} is more than --network-gbps "
            f"{args.network_gbps:g}: a stream gets no more than the nominal rate of its link"
        )


def run(request: flags.Request) -> int:
    """Make the runs, say what they mean, and write the file.  Raises UsageFault, EngineFault."""
    from trainshed.cli.local.run_job import host_of_job
    from trainshed.workbench.calibrating import calibrate
    from trainshed.workbench.short_runs import Unmeasured

    args = request.args
    job = _job_of(request)
    check_out(args.out)
    try:
        calibration = calibrate(_request_of(args), job, host_of_job(args, job), note)
        show(calibration, args.out, args.format)
    except Unmeasured as fault:
        print_error(str(fault))
        return EXIT_UNMEASURED
    return 0


def _request_of(args: argparse.Namespace) -> "CalibrateRequest":
    from trainshed.planning.scaling.training import Strategy
    from trainshed.workbench.calibrating import CalibrateRequest
    from trainshed.workbench.short_runs import RunLimits

    code = [path for path in (args.package_path, args.script) if path]
    if args.module_name and not args.package_path:
        name = args.module_name.split(".")[0]
        code += [path for path in (Path(name), Path(f"{name}.py")) if path.exists()]
    return flags.typed(
        CalibrateRequest,
        args,
        limits=RunLimits(steps_s=args.seconds, start_s=args.start_seconds),
        model=args.module_name or (args.script.name if args.script else ""),
        code=code,
        strategy=Strategy(args.strategy),
    )


def _job_of(request: flags.Request) -> "LocalJob":
    """The trainer as a job of this machine.  Raises UsageFault, Fault."""
    from trainshed.cli.local.local_train import cluster_job_of
    from trainshed.service.starts.programs import Source, working_folder
    from trainshed.workbench.local_run import LocalJob
    from trainshed.workbench.plain_train import PlainJob, command_spec, plain_spec, say

    args, user_args = request
    if args.config:
        submit_flags = {"module-name": args.module_name} if args.module_name else {}
        rulebook = rulebook_of(args)
        return cluster_job_of(args.config, submit_flags, user_args, rulebook, args.package_path)[0]
    if args.module_name and args.script:
        raise UsageFault("at most one of --module-name and --script can be given")
    source = Source(folder=Path.cwd(), package_path=args.package_path)
    if args.module_name:
        spec = plain_spec(PlainJob(module=args.module_name, args=user_args or ()))
    else:
        spec = command_spec(_command(args.script, user_args or ()))
    return LocalJob(
        spec=spec,
        job_id="calibrate",
        source=source,
        folder=working_folder(source, args.module_name),
        say=say,
        is_local_program=not args.module_name,
    )


def _command(script: Path | None, user_args: Sequence[str]) -> tuple[str, ...]:
    if script:
        if not script.is_file():
            raise UsageFault(f"--script {script}: there is no such file")
        return ("python" if script.suffix == ".py" else "bash", str(script), *user_args)
    if not user_args:
        raise UsageFault(
            "nothing to run: give --module-name, --script or --config, or a command after --"
        )
    return tuple(user_args)


def check_out(path: Path) -> None:
    """Refuse a file that could not be written after the runs.  Raises UsageFault."""
    import tempfile

    from trainshed.storage.folders import reason

    try:
        if path.exists() and not path.is_file():
            raise UsageFault(f"--out {path}: that is no file; give the name of one")
        # as long a name as the file's own draft
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageFault(f"--out {path} cannot be written: {reason(error)}") from None


def show(calibration: "Calibration", out: Path, form: str) -> None:
    """Write the file, and say what is in it.  Raises EngineFault, Unmeasured."""
    from trainshed.files.server_files import PUBLIC, write_file
    from trainshed.planning.scaling.calibration_file import read, written
    from trainshed.storage.folders import reason
    from trainshed.workbench.short_runs import Unmeasured

    text = written(calibration)
    try:
        read(text)
    except ValueError as error:
        raise Unmeasured(f"the trainer reported what cannot be: {error}") from None
    try:
        write_file(out, text.encode(), PUBLIC)
    except OSError as error:
        raise EngineFault(f"--out {out} cannot be written: {reason(error)}") from None
    lines = list(sentences(calibration))
    document = {"file": str(out), "calibration": asdict(calibration), "sentences": lines}
    answer(form, document, _text(calibration, lines, out))


def sentences(calibration: "Calibration") -> Iterator[str]:
    """What the runs mean, a sentence each."""
    from trainshed.planning.scaling.calibration import RunKind

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


def _rate(calibration: "Calibration", run: "Run") -> float:
    batch = run.batch_per_accelerator or calibration.training.batch_per_accelerator
    return run.accelerators * batch / run.step_s


def _input(calibration: "Calibration", run: "Run | None", alone: "Run | None") -> Iterator[str]:
    from trainshed.planning.scaling.input_bound import of_run

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


def _list_missing(calibration: "Calibration", runs: "dict[RunKind, Run]") -> Iterator[str]:
    from trainshed.planning.scaling.calibration import RunKind

    if RunKind.INPUT not in runs:
        yield "Not measured: the input alone (B); plans assume that hosts can feed their steps."
    if not calibration.training.gradient_bytes and RunKind.TWO_HOSTS not in runs:
        yield "The size of the gradient is unknown (--params): no plan for several hosts follows."
    if not calibration.host.network_gbps and not {RunKind.LINK, RunKind.TWO_HOSTS} & set(runs):
        yield "Not measured: a link between hosts; give --network-gbps to plan for several."


def _text(calibration: "Calibration", lines: Sequence[str], out: Path) -> str:
    from trainshed.planning.scaling.calibration import RunKind
    from trainshed.workbench.calibrating import RUN_NAMES

    rows = [
        (
            run.kind.value,
            RUN_NAMES.get(run.kind, "several hosts"),
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
