"""What all lists have in common: the size of a page, and the form of one."""

import re
from collections.abc import Mapping, Sequence

from trainshed.api.call import Json
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal

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
