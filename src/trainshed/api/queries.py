"""Query strings of Google's clients."""

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import parse_qsl

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal

#: Parameters of every Google API, about the transport and not about the call
#: (the discovery documents' own ``parameters``); all names that start with ``$`` belong to them.
SYSTEM: Final = frozenset(
    {
        "access_token",
        "alt",
        "callback",
        "fields",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
        "uploadType",
        "upload_protocol",
    }
)

#: More parameters than any client sends.
PARAMETERS_MAX: Final = 100

_LOW_LINE = re.compile(r"_([a-z])")


def read_query(text: str, known: Collection[str]) -> dict[str, str]:
    """The call's own parameters in camelCase; Google's servers take snake_case too.

    Raises a Refusal for what is unknown, given twice, or no text.
    """
    found: dict[str, str] = {}
    for name, value in _pairs(text):
        if name.startswith("$") or name in SYSTEM:
            continue
        camel = _LOW_LINE.sub(lambda match: match[1].upper(), name)
        if camel not in known:
            raise _unknown(name, known)
        if camel in found:
            message = f"query parameter {name} is given twice"
            raise _refusal(name, "duplicate-field", message, "one value")
        if "\0" in value:
            message = f"query parameter {name} holds the character U+0000"
            raise _refusal(name, "wrong-type", message, "a text")
        found[camel] = value
    return found


def _pairs(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        return parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
        )
    except ValueError as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"the query cannot be read: {error}") from None


def _unknown(name: str, known: Collection[str]) -> Refusal:
    """Google's own words for it, so that whoever searches for them finds the cause."""
    message = (
        f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot bind query parameter.'
        f" Field '{name[:100]}' could not be found in request message."
    )
    return _refusal(name, "unknown-field", message, ", ".join(known) or "no parameters")


def _refusal(name: str, rule: str, message: str, accepted: str) -> Refusal:
    violation = Violation(field=name[:100], rule=rule, message=message, accepted=accepted)
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
