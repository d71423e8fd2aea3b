"""Reads the inputs of a plan: calibrations, measured curves, prices."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from trainshed.catalog.machines import egress_gbps, known_machines, recommended_reducer
from trainshed.model.faults import UsageFault
from trainshed.planning.host_kinds import measured_host_type
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.planned_jobs import Helpers, PlannedJob
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.calibration_file import read as read_calibration_text
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import Strategy
from trainshed.planning.stack import misfit
from trainshed.workbench.documents import read_text
from trainshed.workbench.trainer_digest import trainer_digest

#: A field of a calibration at the beginning of an error message.
_FIELD: Final = re.compile(r"(?:training|host|fit|run \d+)(?:\.\w+)*|schema")

#: A table that only calibrations have.
_CALIBRATION: Final = re.compile(r"^\[(?:training|\[run\])\]", re.MULTILINE)


class NotPlannable(Exception):
    """No plan is possible; ``refused`` has the wrong field and the accepted values."""

    def __init__(self, refused: NoPrediction) -> None:
        self.refused = refused
        super().__init__(refused.message)


def job_of(host: HostKind) -> PlannedJob:
    """Describe a job without a file, on any count of one kind of host."""
    machine = known_machines().get(recommended_reducer())
    gbps = egress_gbps(machine) if machine else None
    if host.network_gbps and not host.network_assumed:
        gbps = host.network_gbps
    return PlannedJob(
        host_type=measured_host_type(host),
        reducers=Helpers(machine_type=recommended_reducer(), gbps=gbps or 0.0),
    )


def read_calibration(path: Path) -> Calibration:
    """Read a calibration.  Raises UsageFault without a file, NotPlannable for an invalid one."""
    text = read_text(path)
    try:
        return read_calibration_text(text)
    except ValueError as error:
        match = _FIELD.match(str(error))
        raise NotPlannable(
            NoPrediction(
                field=match[0] if match else "calibration",
                message=f"{path}: {error}",
                accepted="a file that trainshed plan calibrate wrote",
            )
        ) from None


def read_measured(
    path: Path, name: str | None, host: HostKind | None
) -> tuple[Calibration, tuple[str, ...]]:
    """Read a curve of a user's table, and warnings about it.  Raises UsageFault, NotPlannable."""
    # importing these takes 20 ms, and few plans need them
    from trainshed.planning.scaling import tables  # noqa: PLC0415
    from trainshed.planning.scaling.curve import remarks_on  # noqa: PLC0415
    from trainshed.planning.scaling.measured import calibration_of, doubts  # noqa: PLC0415

    text = read_text(path)
    if _CALIBRATION.search(text):
        raise UsageFault(
            f"--measured must be a table of curves, got the calibration {path}: use --calibration"
        )
    by_id = {curve.id: curve for curve in tables.measured(text, str(path))}
    if name is None and len(by_id) > 1:
        raise UsageFault(
            f"{path} has {len(by_id)} series; --series must be one of {', '.join(by_id)}"
        )
    series = by_id.get(name or next(iter(by_id)))
    if series is None:
        raise UsageFault(f"--series must be one of {', '.join(by_id)}, got {name}")
    calibration = calibration_of(series, tables.read({str(path): text}), host)
    if isinstance(calibration, NoPrediction):
        raise NotPlannable(calibration)
    return calibration, (*remarks_on(series.points), *doubts(calibration))


def calibrate_from_published(request: PlanRequest, job: PlannedJob) -> list[Calibration]:
    """Return a calibration from published jobs for each kind of host.  Raises UsageFault."""
    from trainshed.planning.scaling import published  # noqa: PLC0415 - few plans need it

    model = published.known_model(request.model) if request.model else None
    if request.model and model is None:
        raise UsageFault(
            f"--model must be one of {published.KNOWN_NAMES}, got {request.model}; for another "
            "model give its count of parameters: --params N"
        )
    size = model.parameters if model else request.parameters
    training = published.assumed_training(size, request.precision, Strategy(request.strategy))
    kinds = (job.host, *(kind for kind, _ in job.mixed), *(other.host for other in job.others))
    return [published.published_calibration(training, kind, model) for kind in dict.fromkeys(kinds)]


def check_trainings(calibrations: Sequence[Calibration], framework: str) -> None:
    """Check that all calibrations have one training and the image's framework.

    Raises NotPlannable.
    """
    for calibration in calibrations[1:]:
        for name in ("model", "strategy", "precision", "stack"):
            one, other = (
                getattr(calibrations[0].training, name),
                getattr(calibration.training, name),
            )
            if one != other:
                raise _refuse_calibration(
                    f"the calibrations are of two trainings: {name} {one or 'none'} and {other}"
                )
    digests = {calibration.trainer_digest for calibration in calibrations} - {""}
    if len(digests) > 1:
        raise _refuse_calibration(
            "the calibrations were measured with two trainers, whose files differ"
        )
    if calibrations and (why := misfit(calibrations[0], framework)):
        raise _refuse_calibration(why)


def check_trainer(calibrations: Iterable[Calibration], trainer: Path) -> None:
    """Check that all calibrations measured the files of ``trainer``.  Raises NotPlannable."""
    current_digest = trainer_digest([trainer])
    if any(calibration.trainer_digest not in {"", current_digest} for calibration in calibrations):
        raise _refuse_calibration(
            f"the calibration was measured with another trainer than {trainer} or an older one"
        )


def check_hosts(calibrations: Iterable[Calibration], job: PlannedJob) -> tuple[str, ...]:
    """Return warnings on calibrations that differ from a job file's machines."""
    return tuple(
        f"the calibration names no machine type: {job.host.machine_type} is assumed"
        for calibration in calibrations
        if not calibration.host.machine_type and job.host.machine_type
    )[:1]


def _refuse_calibration(message: str) -> NotPlannable:
    accepted = "a calibration of this training: trainshed plan calibrate"
    return NotPlannable(NoPrediction(field="calibration", message=message, accepted=accepted))
