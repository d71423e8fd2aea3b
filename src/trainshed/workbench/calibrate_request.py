"""The request for a calibration, as a user types it: each field is one flag of ``plan calibrate``.

``planning.plan_request`` has the rules of such fields.  Numbers that are 0 and texts that are
empty are measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from trainshed.model.typed_numbers import above_zero, parameter_count, whole_number
from trainshed.planning.plan_request import PRECISIONS, flag
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.training import Strategy, Training

#: Bytes of a parameter's gradient if no hook has measured it.
_BYTES = 4.0
_GIGABIT = 1.25e8
#: The strategies that a measurement of one host can have.
STRATEGIES = tuple(s for s in Strategy if s not in {Strategy.REDUCERS, Strategy.PODS})
#: The strategies whose workers may train without waiting for each other.
ASYNCHRONOUS = (Strategy.PS_DISTRIBUTED, Strategy.PS_NAIVE)


def _host_counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(whole_number(1)(word.strip()) for word in text.split(",")))


def _here(words: str, text: str, default: Any = None, **settings: Any) -> Any:
    """Return a field that a calibration on a server does not use."""
    return flag(words, text, default, place="here", **settings)


def _on_server(words: str, text: str, default: Any = None, **settings: Any) -> Any:
    """Return a field that only a calibration on a server uses."""
    return flag(words, text, default, place="server", **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateRequest:
    """The arguments of a calibration; times are in seconds."""

    file: str | None = flag("FILE", "Job file, either dialect")
    module_name: str | None = _here(
        "--module-name MODULE",
        "Module to run",
        section="program, without FILE; without one of these the command is after --",
    )
    package_path: Path | None = _here("--package-path DIR", "Package of the module", read=Path)
    script: Path | None = _here("--script FILE", "Python file or shell script", read=Path)

    processes: int | None = _here(
        "--processes N",
        "Processes on each host that train on its CPUs",
        section="runs",
        read=whole_number(1),
    )
    gpus: int | None = _here(
        "--gpus N", "GPUs of each host, one for each process", read=whole_number(1)
    )
    runs: str = _here("--runs A,B,C,D", "Runs to make; default: all that give information", "")
    seconds: float | None = flag(
        "--seconds S",
        "Longest time for the steps of a run; default: 15; on a server with the start: 60",
        read=above_zero,
    )
    start_seconds: float | None = flag(
        "--start-seconds S",
        "Longest time until the first step of a run; default: 120; until a job of a server runs: "
        "600",
        read=above_zero,
    )
    step_pattern: str | None = _here(
        "--step-pattern REGEX",
        "Pattern of output lines that report a step; (?P<step>...) is the step's number",
    )
    out: Path = flag("--out FILE", "File to write", Path("calibration.toml"), read=Path)

    batch: float = _here(
        "--batch N",
        "Samples of one process in a step, all micro batches",
        0.0,
        section="model; hooks measure most of these",
        read=above_zero,
    )
    accumulation: int = _here(
        "--accumulation N",
        "Micro batches of a step, if no hook counts them (gradient accumulation)",
        0,
        read=whole_number(1),
    )
    batch_flag: str = _here(
        "--batch-flag FLAG",
        "The program's flag for its batch, for a second run A with half of it: "
        "--batch-flag=--batch-size",
        "",
    )
    parameters: float = flag(
        "--params N", "Number of trained parameters, such as 25.6M", 0.0, read=parameter_count
    )
    precision: str = flag("--precision", "Precision of compute", "fp32", choices=PRECISIONS)
    strategy: Strategy = flag(
        "--strategy",
        "How gradients are exchanged",
        Strategy.ALLREDUCE,
        choices=STRATEGIES,
    )
    asynchronous: bool = flag(
        "--asynchronous",
        "Workers do not wait for each other (parameter servers only)",
        default=False,
        action="store_true",
    )
    stack: str = flag("--stack NAME", "Framework and version", "")

    machine_type: str = _here(
        "--machine-type TYPE", "Machine type of the hosts", "", section="hosts like this one"
    )
    network_gbps: float = flag(
        "--network-gbps GBPS", "Nominal rate of the link between hosts", 0.0, read=above_zero
    )
    stream_gbps: float = flag(
        "--stream-gbps GBPS",
        "Rate of one stream over that link, measured with iperf3 (run E)",
        0.0,
        read=above_zero,
    )
    network: str = _here("--network", "Protocol between hosts", "tcp", choices=("tcp", "rdma"))

    on_server: bool = flag(
        "--on-server",
        "Measure on the machines of a server: one short job of FILE for each count of hosts, "
        "cancelled after --seconds; hooks or progress() report its steps",
        default=False,
        section="measure on a server",
        action="store_true",
    )
    hosts: tuple[int, ...] = _on_server(
        "--hosts N,N",
        "Counts of hosts, one job for each; default: 1. With 2 hosts the network is measured too",
        (1,),
        read=_host_counts,
    )

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each flag that needs or contradicts another."""
        yield from (self._misplaced())
        programs = [bool(self.file), bool(self.script), bool(self.module_name and not self.file)]
        if sum(programs) > 1:
            yield "at most one of FILE, --module-name and --script can be given"
        if self.processes and self.gpus:
            yield "at most one of --processes and --gpus can be given"
        if self.asynchronous and self.strategy not in ASYNCHRONOUS:
            yield f"--asynchronous needs --strategy {' or '.join(ASYNCHRONOUS)}"
        if 0 < self.network_gbps < self.stream_gbps:
            yield (
                f"--stream-gbps must be at most --network-gbps, the nominal rate of the link, "
                f"{self.network_gbps:g}, got {self.stream_gbps:g}"
            )

    def state(self, training: Training) -> Training:
        """Return a measured training with what the user states of it."""
        parameters = self.parameters or training.parameters
        return replace(
            training,
            parameters=parameters,
            gradient_bytes=training.gradient_bytes or parameters * _BYTES,
            precision=self.precision,
            strategy=self.strategy,
            stack=self.stack or training.stack,
            asynchronous=self.asynchronous,
        )

    def link_runs(self) -> Iterator[Run]:
        """Yield the stream between two hosts whose rate the user states."""
        if self.stream_gbps:
            link_bytes = self.stream_gbps * _GIGABIT
            yield Run(kind=RunKind.LINK, accelerators=2, hosts=2, link_bytes=link_bytes)

    def _misplaced(self) -> Iterator[str]:
        """Yield the flags of the other place of measurement."""
        if self.on_server and not self.file:
            yield "--on-server needs a FILE, the job to measure"
        for one in fields(self):
            name = one.metadata["words"].split()[0]
            place = one.metadata.get("place", "")
            if getattr(self, one.name) == one.default:
                continue
            if place == "here" and self.on_server:
                yield f"{name} does not go with --on-server: the job of FILE has its own program"
            if place == "server" and not self.on_server:
                yield f"{name} needs --on-server, or one host is measured: this machine"
