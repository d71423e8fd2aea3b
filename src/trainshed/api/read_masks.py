"""``readMask``: which fields of its resources a list shall have (contracts/vertex-sdk.md 3)."""

from collections.abc import Sequence
from typing import Final

from trainshed.api.call import Json
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.fields import table

DIALECT: Final = "aiplatform_v1"
EVERYTHING: Final = "*"


def masked(resources: Sequence[Json], mask: str, message: str) -> Sequence[Json]:
    """The resources with the mask's fields only; an empty mask leaves them whole.

    ``mask`` is what clients send: paths in either key case, with commas between.  ``message`` is
    the resources' message.  Raises a Refusal for a path that it does not have.
    """
    paths = [_path(text.strip(), message) for text in mask.split(",") if text.strip()]
    if not paths or [EVERYTHING] in paths:
        return resources
    return [_picked(resource, paths) for resource in resources]


def _path(text: str, message: str) -> list[str]:
    """A path in camelCase.  What lies in maps, lists and free JSON cannot be chosen."""
    if text == EVERYTHING:
        return [EVERYTHING]
    messages, found = table(DIALECT).messages, list[str]()
    info = messages.get(message)
    for step in text.split("."):
        field = info.by_key.get(step) if info else None
        if field is None:
            raise _refused(text, message)
        found.append(field.json_name)
        info = None if field.is_repeated else messages.get(field.type)
    return found


def _refused(text: str, message: str) -> Refusal:
    told = f"read_mask: {message} has no field {text[:100]}"
    accepted = ", ".join(info.json_name for info in table(DIALECT).messages[message].fields)
    violation = Violation(field="read_mask", rule="unknown-field", message=told, accepted=accepted)
    return Refusal(Code.INVALID_ARGUMENT, told, (violation,))


def _picked(resource: Json, paths: list[list[str]]) -> Json:
    found: Json = {}
    for name, value in resource.items():
        below = [path[1:] for path in paths if path[0] == name]
        if [] in below:
            found[name] = value
        elif below:
            found[name] = _picked(value, below)
    return found
