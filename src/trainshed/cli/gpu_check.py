"""``trainshed gpu-check``: a few steps on CPU and GPU, and whether the GPU pays."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli.flags import Request
from trainshed.cli.hosts import host_of
from trainshed.cli.sink import TerminalSink
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.workbench.gpu_check import Comparison, GpuCheck, compare


def run(request: Request) -> int:
    """Measure and say; exit code 0 whatever the answer is."""
    args, user_args = request
    as_json = args.format == "json"

    def sink_of(replicas: Sequence[ReplicaPlan]) -> TerminalSink:
        return TerminalSink(replicas, colour=args.color, to_stderr=as_json)

    check = GpuCheck(
        module=args.module_name,
        package_path=args.package_path,
        folder=Path.cwd(),
        args=user_args or (),
    )
    found = compare(check, host_of(args), sink_of)
    if as_json:
        out_json(_as_json(found))
    else:
        _print(found)
    return 0


def _print(found: Comparison) -> None:
    rows = [("CPU", f"{found.cpu_seconds:.3g}", "1")]
    if found.gpu_seconds is not None and found.speedup is not None:
        rows.append((found.gpu_name or "GPU", f"{found.gpu_seconds:.3g}", f"{found.speedup:.3g}"))
    out("")
    out(table(("DEVICE", "SECONDS", "SPEEDUP"), rows))
    out(found.verdict)


def _as_json(found: Comparison) -> dict[str, object]:
    return {
        "cpu_seconds": found.cpu_seconds,
        "gpu_seconds": found.gpu_seconds,
        "gpu": found.gpu_name,
        "speedup": found.speedup,
        "verdict": found.verdict,
    }
