"""What the fields of a replica's container exclude and need (contracts/vertex-sdk.md 7.1).

The model has one program a group, in which these fields have merged: only the document still shows
which of them were given.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.wire.ml_v1.words import FAMILY
from trainshed.wire.spelling import as_written

#: The fields that say how a container starts.
STARTING: Final = ("containerCommand", "containerArgs")

Json = Mapping[str, Any]


def misfits(training: Json, document: Json) -> Iterator[Violation]:
    """The containers that are given args twice, or say how to start an image that is not named."""
    has_master_image = bool(training.get("masterConfig", {}).get("imageUri"))
    for family in dict.fromkeys(FAMILY.values()):
        config = training.get(f"{family}Config", {})
        given = [name for name in STARTING if config.get(name)]
        if not given:
            continue
        path = as_written(document, f"trainingInput.{family}Config.{given[0]}")
        if training.get("args"):
            yield _conflict(path, given)
        if not (has_master_image or config.get("imageUri")):
            yield _without_image(path, given)


def _conflict(path: str, given: list[str]) -> Violation:
    message = f"args and {' and '.join(given)} exclude each other"
    accepted = "args for the whole job, or containerCommand and containerArgs"
    return Violation(field=path, rule="args-conflict", message=message, accepted=accepted)


def _without_image(path: str, given: list[str]) -> Violation:
    message = f"{' and '.join(given)} without an image to start"
    accepted = "an imageUri in the same object, or in masterConfig"
    return Violation(field=path, rule="command-without-image", message=message, accepted=accepted)
