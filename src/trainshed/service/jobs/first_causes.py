"""Drops violations that are consequences of another reported violation.

A value that cannot be read is absent from the model, and a rule may then report that it is missing.
The user can only correct the value itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.service.jobs.refusing import Say

#: Rules that report an absence, and the fields from which the absent thing is read.
ABSENCES: Final[Mapping[str, tuple[Field, ...]]] = {
    "accelerator-count": (Field.ACCELERATOR_COUNT, Field.ACCELERATOR),
    "accelerator-missing": (Field.ACCELERATOR,),
    "accelerator-type-missing": (Field.ACCELERATOR_TYPE, Field.ACCELERATOR),
    "container-xor-python": (Field.GROUP,),
    "image-missing": (Field.IMAGE_URI,),
    "machine-type-missing": (Field.MACHINE_TYPE,),
    "master-type-missing": (Field.MACHINE_TYPE,),
    "no-command": (Field.COMMAND, Field.ARGS),
    "no-module": (Field.MODULE,),
    "no-program": (Field.GROUP, Field.IMAGE_URI, Field.RUNTIME_VERSION),
    "package-uris": (Field.PACKAGE_URIS,),
    "python-module": (Field.MODULE,),
    "region-unknown": (Field.REGION,),
    "replica-count": (Field.COUNT,),
    "runtime-xor-image": (Field.RUNTIME_VERSION, Field.IMAGE_URI),
    "study-metrics": (Field.STUDY,),
    "study-parameters": (Field.STUDY,),
    "tpu-topology": (Field.TPU_TOPOLOGY,),
    "worker-pools": (Field.GROUPS,),
}

#: One missing value breaks this rule at many fields.
OF_ONE_CAUSE: Final = "counts-need-custom"


def first_causes(
    broken: Iterable[Violation], unreadable: Sequence[Violation], say: Say
) -> Iterator[Violation]:
    """Return the broken rules that are not consequences of unreadable values."""
    faulty = tuple(str(violation.field) for violation in unreadable)
    rest = [v for v in broken if not _follows(v, faulty, say)]
    several = [v for v in rest if v.rule == OF_ONE_CAUSE]
    for violation in rest:
        if violation.rule != OF_ONE_CAUSE:
            yield violation
        elif violation is several[0]:
            yield _append_fields(violation, several[1:], say)


def _follows(violation: Violation, faulty: Sequence[str], say: Say) -> bool:
    path = violation.field
    if not isinstance(path, FieldPath):
        return path in faulty
    if say(path) in faulty:
        return True
    sources = (say(replace(path, field=field)) for field in ABSENCES.get(violation.rule, ()))
    return any(_is_related(source, fault) for source in sources for fault in faulty)


def _is_related(source: str, fault: str) -> bool:
    """Whether the faulty value is the source, contains it or is a part of it."""
    return source == fault or _is_below(source, fault) or _is_below(fault, source)


def _is_below(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _append_fields(violation: Violation, violations: Sequence[Violation], say: Say) -> Violation:
    fields = (say(v.field) if isinstance(v.field, FieldPath) else v.field for v in violations)
    names = ", ".join(dict.fromkeys(fields))
    if not names:
        return violation
    return replace(violation, message=f"{violation.message}; the same rule refuses {names}")
