"""What all lists have in common: the size of a page, its form, and ``readMask``."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.api.call import Json
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.fields import table

#: page_size is an int32 on the wire.
_SIZE_BITS = 31
_INT32 = re.compile(r"[+-]?[0-9]{1,10}")


def page_size_of(query: Mapping[str, str]) -> int:
    """``pageSize`` as a number; 0 where it is not given.  Raises a Refusal for any other text."""
    text = query.get("pageSize", "")
    if not text:
        return 0
    if not _INT32.fullmatch(text) or abs(int(text)) >= 1 << _SIZE_BITS:
        message = f"page_size is a whole number of 32 bits, not {text[:50]!r}"
        violation = Violation(
            field="page_size", rule="wrong-type", message=message, accepted="0 to 1000"
        )
        raise Refusal(Code.INVALID_ARGUMENT, message, (violation,))
    return int(text)


def page(collection: str, resources: Sequence[Json], token: str) -> Json:
    """A page as Google writes it: no empty list, no token behind the last one."""
    found: Json = {collection: list(resources)} if resources else {}
    return {**found, "nextPageToken": token} if token else found


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
    problem = f"read_mask: {message} has no field {text[:100]}"
    accepted = ", ".join(info.json_name for info in table(DIALECT).messages[message].fields)
    violation = Violation(
        field="read_mask", rule="unknown-field", message=problem, accepted=accepted
    )
    return Refusal(Code.INVALID_ARGUMENT, problem, (violation,))


def _picked(resource: Json, paths: list[list[str]]) -> Json:
    found: Json = {}
    for name, value in resource.items():
        below = [path[1:] for path in paths if path[0] == name]
        if [] in below:
            found[name] = value
        elif below:
            found[name] = _picked(value, below)
    return found
