"""Rules about the job as a whole: its id, labels, priority, limits and strategy."""

import re
from collections.abc import Iterator, Mapping

from trainshed.admission.context import RuleContext, broken
from trainshed.admission.rules.tpus import SLICE_CORES
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.network import LAYOUTS, NETWORK_LABEL
from trainshed.model.roles import Dialect
from trainshed.model.texts import join_or

JOB_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
LABELS_MAX = 64
#: The longest key or value of a label (job_limits.toml; docs/sources/vertex.md 8).
LABEL_LENGTH_MAX = {Dialect.ML_V1: 63, Dialect.AIPLATFORM_V1: 64}
DISPLAY_NAME_MAX = 128
PRIORITY_MAX = 1000
WAIT_S_MIN = 1800

#: FLEX_START is for these (job_limits.toml, dws2026); both sizes of A100 and both H100 count.
FLEX_START_TYPES = ("L4", "A100", "H100", "H200", "B200")


def job_id_is_well_formed(context: RuleContext) -> Iterator[Violation]:
    """An ml v1 job id: a letter, then letters, digits and underscores."""
    job_id = context.submitted_spec.job_id
    if context.submitted_spec.dialect is Dialect.ML_V1 and job_id and not JOB_ID.fullmatch(job_id):
        message = f"{job_id!r} is not a valid job id"
        accepted = "a letter, then up to 127 letters, digits and underscores"
        yield broken(None, Field.JOB_ID, "job-id", message, accepted)


def labels_are_well_formed(context: RuleContext) -> Iterator[Violation]:
    """At most 64 labels; short, lower case (job_limits.toml; docs/sources/vertex.md 8)."""
    submitted = context.submitted_spec
    return label_violations(submitted.dialect, submitted.labels, FieldPath(Field.LABELS))


def label_violations(
    dialect: Dialect, labels: Mapping[str, str], where: FieldPath | str
) -> Iterator[Violation]:
    """Yield the violations of a job's labels, also of labels that a caller sets later."""
    if len(labels) > LABELS_MAX:
        message = f"{len(labels)} labels are too many"
        accepted = f"at most {LABELS_MAX}"
        yield Violation(field=where, rule="labels", message=message, accepted=accepted)
    most = LABEL_LENGTH_MAX[dialect]
    for key, value in labels.items():
        if not (key[:1].isalpha() and _is_label(key, most) and _is_label(value, most)):
            message = f"the label {key}={value} is malformed"
            accepted = (
                f"at most {most} lower-case letters, digits, _ and -; a key starts with a letter"
            )
            yield Violation(field=where, rule="labels", message=message, accepted=accepted)
    yield from _check_network(labels, where)


def _check_network(labels: Mapping[str, str], where: FieldPath | str) -> Iterator[Violation]:
    """Check Trainshed's own label: how the replicas of a job share its network."""
    layout = labels.get(NETWORK_LABEL)
    if layout is not None and layout not in LAYOUTS:
        message = f"the label {NETWORK_LABEL} must be {join_or(LAYOUTS)}, got {layout!r}"
        accepted = f"{join_or(LAYOUTS)}: one network for the whole job, or one for each replica"
        yield Violation(field=where, rule="network-label", message=message, accepted=accepted)


def _is_label(text: str, length_max: int) -> bool:
    lower = len(text) <= length_max and text == text.lower()
    return lower and all(c.isalnum() or c in "_-" for c in text)


def display_name_is_short(context: RuleContext) -> Iterator[Violation]:
    """At most 128 characters (docs/sources/vertex.md 8)."""
    length = len(context.submitted_spec.display_name)
    if length > DISPLAY_NAME_MAX:
        message = f"a display name of {length} characters is too long"
        accepted = f"at most {DISPLAY_NAME_MAX} characters"
        yield broken(None, Field.DISPLAY_NAME, "display-name", message, accepted)


def limits_are_possible(context: RuleContext) -> Iterator[Violation]:
    """Priority and time limits are within what the dialect allows (docs/sources/vertex.md 7.1)."""
    scheduling = context.submitted_spec.scheduling
    if scheduling.priority is not None and not 0 <= scheduling.priority <= PRIORITY_MAX:
        message = f"the priority must be from 0 to {PRIORITY_MAX}, got {scheduling.priority}"
        yield broken(None, Field.PRIORITY, "priority", message, f"0 to {PRIORITY_MAX}")
    if scheduling.running_s_max is not None and scheduling.running_s_max < 0:
        message = f"the running time must not be negative, got {scheduling.running_s_max:g} s"
        yield broken(None, Field.RUNNING_MAX, "running-time", message, "a duration such as 7200s")
    waiting = scheduling.waiting_s_max
    least = WAIT_S_MIN if context.submitted_spec.dialect is Dialect.ML_V1 else 0
    if waiting is not None and waiting < least:
        message = f"the waiting time must be at least {least} s, got {waiting:g} s"
        yield broken(None, Field.WAITING_MAX, "waiting-time", message, f"{least}s or more")


def strategy_fits(context: RuleContext) -> Iterator[Violation]:
    """FLEX_START and SPOT are allowed for some jobs only (job_limits.toml)."""
    strategy = context.submitted_spec.scheduling.strategy
    if context.submitted_spec.dialect is not Dialect.AIPLATFORM_V1:
        return
    if strategy == "FLEX_START":
        yield from _check_flex_start(context)
    if strategy == "SPOT":
        for group, device in context.devices():
            if device.type.is_tpu and device.count >= SLICE_CORES:
                message = "a slice of a TPU pod cannot use strategy SPOT"
                yield broken(group, Field.ACCELERATOR_COUNT, "spot", message, "8, or STANDARD")


def _check_flex_start(context: RuleContext) -> Iterator[Violation]:
    groups = context.spec.groups
    first = groups[0] if groups else None
    for group in groups:
        device = context.device(group)
        if device is None or not device.type.name.startswith(FLEX_START_TYPES):
            message = f"strategy FLEX_START is for {join_or(FLEX_START_TYPES)} GPUs"
            accepted = "one of those GPUs, or strategy STANDARD"
            yield broken(group, Field.ACCELERATOR, "flex-start", message, accepted)
        elif (
            first
            and first.machine_type
            and (group.machine_type, group.accelerator)
            != (
                first.machine_type,
                first.accelerator,
            )
        ):
            message = "strategy FLEX_START needs the same machines in all worker pools"
            accepted = f"{first.machine_type}, as in the first pool"
            yield broken(group, Field.MACHINE_TYPE, "flex-start", message, accepted)
