"""Chooses the command that gets a user further after a refusal."""

import shlex
from typing import Final

from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.scaling.prediction import NoPrediction

#: Fields whose refusal does not begin with a flag: without it the plan has all clusters that are
#: possible.
_WITHOUT_FLAG: Final = frozenset(
    {"gpus", "hosts", "model-parallel", "deadline", "budget", "spot", "critical_batch"}
)
#: The fields that a calibration determines.
_MEASURED: Final = frozenset({"calibration", "gradient_bytes", "schema"})


def next_command(refused: NoPrediction, request: PlanRequest) -> str:
    """Return the command to run next, to copy; empty if only the user's file can be changed."""
    field, accepted = refused.field, refused.accepted
    if accepted.startswith(("trainshed ", "iperf3 ")):
        return accepted
    if accepted.startswith("--"):
        return _plan_again(request, accepted.partition(",")[0])
    if field == "batch" and "--batch " in accepted:
        return _plan_again(request, accepted[accepted.index("--batch ") :])
    if field in {"reducers", *_WITHOUT_FLAG}:
        return _plan_again(request, "--reducers 0" if field == "reducers" else "")
    is_of_file = field.partition(".")[0].partition(" ")[0] in {"training", "host", "fit", "run"}
    if field not in _MEASURED and not is_of_file:
        return ""
    flags = " --params PARAMETERS" if field == "gradient_bytes" else ""
    return f"{measure_command(request.file)}{flags}"


def measure_command(file: str | None) -> str:
    """Return the command that measures the trainer of a job file, or of a folder without one."""
    program = shlex.quote(file) if file else "--module-name trainer.task --package-path trainer"
    return f"trainshed plan calibrate {program}"


def _plan_again(request: PlanRequest, flags: str) -> str:
    words = ["trainshed", "plan", *filter(None, [request.file])]
    words += [word for path in request.calibrations for word in ("--calibration", str(path))]
    if request.measured:
        words += ["--measured", str(request.measured)]
        words += ["--series", request.series] if request.series else []
    words += ["--params", f"{request.parameters:.12g}"] if request.parameters else []
    words += ["--model", request.model] if request.model else []
    words += ["--machine-types", ",".join(request.machine_types)] if request.machine_types else []
    return f"{shlex.join(words)} {flags}".rstrip()
