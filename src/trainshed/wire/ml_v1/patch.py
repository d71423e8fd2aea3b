"""What a patch of an ml v1 job may change: its labels, guarded by its etag."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainshed.admission.rules.job import label_violations
from trainshed.model.faults import Fault, Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.model.roles import Dialect
from trainshed.wire.jsonmap import described

#: The fields of a Job that can be changed (contracts/vertex-sdk.md 7).
CHANGEABLE: Final = ("labels", "etag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """New labels, all of them, or None to leave them; and the etag they depend on, or None."""

    labels: Mapping[str, str] | None = None
    etag: bytes | None = None


def patch_of(document: Any, update_mask: str) -> Patch:
    """Read a patch.  Without a mask, what the document holds is meant.

    Raises Refusal (INVALID_ARGUMENT) for a path that cannot be changed and for malformed values.
    """
    if not isinstance(document, Mapping):
        message = f"the body must be a JSON object, not {described(document)}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    paths = [path.strip() for path in update_mask.split(",") if path.strip()] or list(document)
    if fixed := [str(path) for path in paths if path not in CHANGEABLE]:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"{', '.join(fixed)} cannot be changed; update_mask may name labels and etag only",
        )
    return Patch(
        labels=_labels(document.get("labels")) if "labels" in paths else None,
        etag=_etag(document.get("etag")),
    )


def _labels(value: Any) -> Mapping[str, str]:
    labels = {} if value is None else value
    if not isinstance(labels, Mapping):
        raise Fault((_wrong("labels", "labels must be an object of texts", value),))
    found = list(_no_texts(labels)) or list(label_violations(Dialect.ML_V1, labels, "labels"))
    if found:
        raise Fault(tuple(found))
    return labels


def _no_texts(labels: Mapping[str, Any]) -> Iterator[Violation]:
    for key, value in labels.items():
        if not isinstance(value, str):
            yield _wrong(f"labels.{key}", "a label must be a text", value)


def _etag(value: Any) -> bytes | None:
    if value is None or value == "":
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Fault((_wrong("etag", "an etag is base64, as it was read", value),)) from None


def _wrong(field: str, message: str, value: Any) -> Violation:
    return Violation(field=field, rule="wrong-type", message=f"{message}, not {described(value)}")
