"""Applies the change that would admit a waiting job to its document.

The planner changes a demand; the document may express it in another way, for example by a scale
tier.  So a changed document is judged again, and dropped unless it has exactly the changed demand.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from trainshed.model.explanation import Change
from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import JudgedSubmission
from trainshed.service.texts.document_paths import with_value

_FIELDS: Final = {
    "replica_count": Field.COUNT,
    "accelerator_count": Field.ACCELERATOR_COUNT,
    "accelerator_type": Field.ACCELERATOR_TYPE,
    "region": Field.REGION,
    "running_max": Field.RUNNING_MAX,
}

#: Judges a document of the same kind.
Rejudge = Callable[[Merged], JudgedSubmission]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDocument:
    """A document with a change, which is a valid job; either the value or the location changed."""

    merged: Merged
    path: str = ""
    """The dotted path of the changed value; empty if the location changed."""
    location: str | None = None


def apply_change(
    change: Change, merged: Merged, judged: JudgedSubmission, judge: Rejudge
) -> ChangedDocument | None:
    """Return the document with a change; None if no single value of the document makes it."""
    question = judged.judgement.question
    if question is None:
        return None
    changed = _change_document(change, merged, judged, question.spec)
    if changed is None:
        return None
    again = judge(changed.merged)
    spec = again.judgement.question.spec if again.judgement.question else None
    is_exact = spec is not None and _has_change(spec, question.spec, change)
    return changed if is_exact and not again.violations else None


def _change_document(
    change: Change, merged: Merged, judged: JudgedSubmission, spec: JobSpec
) -> ChangedDocument | None:
    field = _FIELDS.get(change.field)
    if field is None:  # no field of the document has it, such as the size of a machine
        return None
    if field is Field.REGION and spec.dialect is Dialect.AIPLATFORM_V1:
        moved = replace(merged, region=change.accepted)
        return ChangedDocument(merged=moved, location=change.accepted)
    path = judged.judgement.say(FieldPath(field, Role(change.role) if change.role else None))
    content = with_value(merged.content, path, change.accepted)
    if content is None:
        return None
    return ChangedDocument(merged=replace(merged, content=content), path=path)


def _has_change(spec: JobSpec, before: JobSpec, change: Change) -> bool:
    """Return whether a spec is the earlier one with the change, as far as its cluster goes."""
    if change.field == "region":
        return spec.region == change.accepted and spec.groups == before.groups
    if change.field == "running_max":
        is_shorter = spec.scheduling.running_s_max == float(change.accepted.removesuffix("s"))
        return is_shorter and spec.groups == before.groups
    groups = [
        _change_group(group, change) if group.role.value == change.role else group
        for group in before.groups
    ]
    return list(map(_describe_size, spec.groups)) == list(map(_describe_size, groups))


def _change_group(group: ReplicaGroup, change: Change) -> ReplicaGroup:
    accelerator = group.accelerator
    if change.field == "replica_count":
        return replace(group, count=int(change.accepted))
    if accelerator is None:
        return group
    if change.field == "accelerator_count":
        return replace(group, accelerator=replace(accelerator, count=int(change.accepted)))
    return replace(group, accelerator=replace(accelerator, type=change.accepted))


def _describe_size(group: ReplicaGroup) -> tuple[Any, ...]:
    return group.role, group.count, group.machine_type, group.accelerator
