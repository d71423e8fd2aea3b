"""The families of ``/metrics/jobs``: each has a series for each open job."""

from typing import Final

from trainshed.service.telemetry.family import Family, FamilyKind

_JOB: Final = ("project", "job")
_C, _G = FamilyKind.COUNTER, FamilyKind.GAUGE


def _family(kind: FamilyKind, name: str, text: str, *labels: str) -> Family:
    return Family(name=f"trainshed_job_{name}", kind=kind, text=text, labels=(*_JOB, *labels))


INFO: Final = _family(
    _G, "info", "1 for each job of this page", "kind", "state", "attempt", "creator"
)
CREATED: Final = _family(_G, "created_timestamp_seconds", "When the job was submitted")
GPUS: Final = _family(_G, "gpus", "GPUs that the job asks for")
RESTARTS: Final = _family(_C, "restarts_by_cause", "Restarts of the job by cause", "cause")
STEP: Final = _family(_G, "step", "Newest step that the program reported")
STEPS_EXPECTED: Final = _family(
    _G, "expected_steps", "Step at which the program said that it will end"
)
STEP_SECONDS: Final = _family(_G, "step_seconds", "Newest mean time of a step")
STEP_PREDICTED: Final = _family(
    _G, "predicted_step_seconds", "Step time that was predicted at the submission"
)
GPU_UTILIZATION: Final = _family(
    _G, "gpu_utilization_ratio", "Mean utilization of the job's GPUs in the newest sample"
)
GPU_SECONDS: Final = _family(_C, "gpu_seconds", "GPU-seconds that the job has held")
ENERGY: Final = _family(_C, "energy_joules", "Energy of the job's GPUs")
GOODPUT: Final = _family(_G, "goodput_ratio", "Productive time over the time with machines")
ETTR: Final = _family(_G, "ettr_ratio", "Productive time over the time since the submission")
REPORTED: Final = _family(
    _G, "heartbeat_timestamp_seconds", "When the program last reported a step or a value"
)
CHECKPOINT: Final = _family(
    _G, "last_checkpoint_timestamp_seconds", "When the newest checkpoint was complete"
)
COST: Final = _family(
    _G, "cost", "Cost of the job until now; at_least: a machine has no price", "currency",
    "at_least",
)  # fmt: skip

JOB_FAMILIES: Final = tuple(value for value in globals().values() if isinstance(value, Family))
