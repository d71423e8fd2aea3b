"""``trainshed gpu-check``: does a GPU help this model?  A few steps on CPU and GPU say so (R24).

The trainer takes ``--device cpu`` or ``--device cuda`` and ends with one line of JSON that has
``seconds``.  Both runs go through the local engine, so that the GPU is held exclusively.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainshed.cli.flags import Request
from trainshed.cli.run_job import host_of
from trainshed.cli.sink import TerminalSink
from trainshed.cli.terminal import answer, table
from trainshed.engines.base import OutputSink, Stream
from trainshed.engines.local.devices.find import devices
from trainshed.model.attempt import Outcome
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.service.local_run import LocalJob, prepare, start
from trainshed.service.programs import Source, working_folder
from trainshed.workbench.plain_train import PlainJob, plain_spec, say

#: Below this the GPU mostly waits; a run of a few steps is not exact enough to say more.
WORTH_IT = 1.5


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
    def conclusion(self) -> str:
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


def run(request: Request) -> int:
    """Measure and say; exit code 0 whatever the answer is.

    Raises EngineFault when a run fails or ends without its line of JSON.
    """
    if any(word.split("=")[0] == "--device" for word in request.user_args or ()):
        raise UsageFault("--device is what gpu-check itself gives the trainer; leave it out")
    found = Comparison(cpu_seconds=_seconds(request, "cpu"))
    if gpus := devices():
        gpu_seconds = _seconds(request, "cuda")
        found = replace(found, gpu_seconds=gpu_seconds, gpu_name=gpus[0].name)
    answer(request.args, _as_json(found), _text(found))
    return 0


def _text(found: Comparison) -> str:
    rows = [("CPU", f"{found.cpu_seconds:.3g}", "1")]
    if found.gpu_seconds is not None and found.speedup is not None:
        rows.append((found.gpu_name or "GPU", f"{found.gpu_seconds:.3g}", f"{found.speedup:.3g}"))
    return "\n".join(["", table(("DEVICE", "SECONDS", "SPEEDUP"), rows), found.conclusion])


def _as_json(found: Comparison) -> dict[str, object]:
    return {
        "cpu_seconds": found.cpu_seconds,
        "gpu_seconds": found.gpu_seconds,
        "gpu": found.gpu_name,
        "speedup": found.speedup,
        "verdict": found.conclusion,
    }


def _seconds(request: Request, device: str) -> float:
    args = request.args
    host = host_of(args)
    prepared = prepare(_job(request, device), host)
    sink = TerminalSink(prepared.plan.replicas, colour=args.color, to_stderr=args.format == "json")
    listener = _Listener(sink)
    outcome = start(prepared, host, listener).outcome
    if outcome.exit_code:
        raise EngineFault(f"the run with --device {device} failed: {outcome.message}")
    return _measured(listener, outcome, device)


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
        any_gpu_count=int(device == "cuda"),
    )


def _measured(listener: "_Listener", outcome: Outcome, device: str) -> float:
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
class _Listener:
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
