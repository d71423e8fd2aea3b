"""Does a GPU help this model?  A few of its steps on the CPU and on a GPU say so (R24).

The trainer takes ``--device cpu`` or ``--device cuda`` and ends with one line of JSON that has
``seconds``.  Both runs go through the local engine, so that the GPU is held exclusively.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.engines.base import OutputSink, Stream
from trainshed.engines.local.devices.find import devices
from trainshed.model.attempt import Outcome
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.service.local_run import Host, LocalJob, prepare, start
from trainshed.service.programs import Source, working_folder
from trainshed.workbench.plain_train import PlainJob, plain_spec, say

#: Below this the GPU mostly waits; a run of a few steps is not exact enough to say more.
WORTH_IT = 1.5

SinkOf = Callable[[Sequence[ReplicaPlan]], OutputSink]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCheck:
    """What to run: ``args`` are the trainer's own, without ``--device``."""

    module: str
    package_path: Path | None
    folder: Path
    args: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was measured; the GPU's half is None where there is no GPU."""

    cpu_seconds: float
    gpu_seconds: float | None = None
    gpu_name: str | None = None

    @property
    def speedup(self) -> float | None:
        """How many times as fast the GPU was."""
        return self.cpu_seconds / self.gpu_seconds if self.gpu_seconds else None

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.speedup is None:
            return (
                "This machine has no GPU, so this says what the CPU needs and nothing about a GPU. "
                "Run the same command on a machine that has one before paying for it."
            )
        if self.speedup < WORTH_IT:
            return (
                f"A GPU does not pay: it is {self.speedup:.2g} times as fast as the CPU, and a GPU "
                f"machine that is worth it is at least {WORTH_IT:g} times as fast."
            )
        return (
            f"A GPU pays where its machine costs less than {self.speedup:.2g} times as much: "
            "it is that many times as fast."
        )


def compare(check: GpuCheck, host: Host, sink_of: SinkOf) -> Comparison:
    """Run the steps on the CPU and, where there is one, on a GPU.

    Raises EngineFault when a run fails or ends without its line of JSON.
    """
    cpu_seconds = _seconds(check, host, sink_of, device="cpu")
    found = devices()
    if not found:
        return Comparison(cpu_seconds=cpu_seconds)
    gpu_seconds = _seconds(check, host, sink_of, device="cuda")
    return Comparison(cpu_seconds=cpu_seconds, gpu_seconds=gpu_seconds, gpu_name=found[0].name)


def _seconds(check: GpuCheck, host: Host, sink_of: SinkOf, *, device: str) -> float:
    job = _job(check, device)
    prepared = prepare(job, host)
    listener = Listener(sink_of(prepared.plan.replicas))
    outcome = start(prepared, host, listener).outcome
    if outcome.exit_code:
        raise EngineFault(f"the run with --device {device} failed: {outcome.message}")
    return _measured(listener, outcome, device)


def _job(check: GpuCheck, device: str) -> LocalJob:
    plain = PlainJob(module=check.module, args=(*check.args, "--device", device))
    source = Source(folder=check.folder, package_path=check.package_path)
    return LocalJob(
        spec=plain_spec(plain),
        job_id=f"gpu_check_{device}",
        source=source,
        folder=working_folder(source, check.module),
        say=say,
        any_gpu_count=int(device == "cuda"),
    )


def _measured(listener: "Listener", outcome: Outcome, device: str) -> float:
    for text in reversed(listener.last_lines):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        seconds = found.get("seconds") if isinstance(found, dict) else None
        if isinstance(seconds, int | float) and seconds > 0:
            return float(seconds)
    raise EngineFault(
        f"the run with --device {device} ended ({outcome.message}) without a line of JSON that "
        'has "seconds"'
    )


@dataclass(slots=True)
class Listener:
    """Passes output on, and keeps the last lines that look like JSON."""

    sink: OutputSink
    last_lines: list[str] = field(default_factory=list)

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica."""
        if stream == "stdout" and text.startswith("{"):
            self.last_lines = [*self.last_lines[-9:], text]
        self.sink.line(replica, text, stream)

    def note(self, text: str) -> None:
        """Take one line of the engine."""
        self.sink.note(text)
