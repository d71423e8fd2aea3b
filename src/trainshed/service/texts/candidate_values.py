"""Reads from the words of a violation which values would repair it, the most likely first.

The words are for people; a candidate that is read wrongly is tried and dropped by the caller.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainshed.model.faults import Violation

#: The name that a violation suggests.
SUGGESTED: Final = re.compile(r"did you mean ([\w./-]+)(?: instead of [^?]*)?\?")
_WORD: Final = re.compile(r"(?<![\w./-])[A-Za-z0-9][\w./-]*(?![\w/-])")
#: Names of machines, regions, accelerators and enums; words of a sentence have none of these.
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]+|[a-z0-9.]+(?:[-_][a-z0-9.]+)+|[a-z]+-[a-z]+\d+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
#: A limit, such as that of a length: it would repair a number alone.
_LIMIT: Final = re.compile(r"\bat (?:most|least) \d+")
#: A name that ends with a number, as n1-standard-8.
_NUMBERED: Final = re.compile(r"(.*?)(\d{1,9})")
#: Similar enough to be meant, as for misspelled names.
_ALIKE: Final = 0.6
#: The most characters that are read of a message, whose values may be as long as the text.
MESSAGE_LENGTH_MAX: Final = 2000
#: The accelerators that a machine type must have.
_ACCELERATORS: Final = re.compile(r"type (?P<type>[A-Z0-9_]+), count (?P<count>\d+)")
_MACHINE_TYPES: Final = (
    (re.compile(r"(.*\.)?machineSpec\.accelerator(?:Type|Count)"), r"\1machineSpec.machineType"),
    (
        re.compile(r"trainingInput\.(\w+)Config\.acceleratorConfig\.(?:type|count)"),
        r"trainingInput.\1Type",
    ),
)


def accelerators_of(violation: Violation) -> Mapping[str, str]:
    """Return the type and count that a machine must have, by their paths; none for other rules."""
    match = _ACCELERATORS.fullmatch(violation.accepted)
    path = str(violation.field)
    if match is None or violation.rule != "accelerator-missing":
        return {}
    if path.endswith("acceleratorConfig"):
        return {f"{path}.type": match["type"], f"{path}.count": match["count"]}
    return {f"{path}.acceleratorType": match["type"], f"{path}.acceleratorCount": match["count"]}


def machine_type_path(path: str) -> str:
    """Return the path of the machine type that goes with an accelerator's; empty for others."""
    for pattern, template in _MACHINE_TYPES:
        if match := pattern.fullmatch(path):
            return match.expand(template)
    return ""


def candidate_values(violation: Violation, value: Any) -> Sequence[str]:
    """Return the values that a violation names, the most likely first; ``value`` is the faulty one.

    The suggested name comes first, then the nearest numbers, or the names that are most similar.
    """
    suggested = SUGGESTED.findall(violation.message[:MESSAGE_LENGTH_MAX])
    accepted = violation.accepted[:MESSAGE_LENGTH_MAX]
    if _WORD.fullmatch(accepted):
        return list(dict.fromkeys([*suggested, accepted]))
    words = _WORD.findall(accepted)
    text = "" if value is None else str(value)[:MESSAGE_LENGTH_MAX]
    if _NUMBER.fullmatch(text):
        wanted = float(text)
        numbers = [word for word in words if _NUMBER.fullmatch(word)]
        nearest = sorted(numbers, key=lambda n: (abs(float(n) - wanted), -float(n)))
        return [*suggested, *nearest]
    if text:
        words = _WORD.findall(_LIMIT.sub("", accepted))
    names = [word for word in words if _NAME.fullmatch(word) or _NUMBER.fullmatch(word)]
    if len(names) > 1 and text:
        names = [name for name in names if _likeness(name, text) >= _ALIKE]
    nearest = sorted(names, key=lambda name: _distance(name, text))
    return list(dict.fromkeys([*suggested, *nearest]))


def _distance(name: str, text: str) -> tuple[float, float]:
    """Return how far a name is from another one: by its last number, else by its letters."""
    ours, theirs = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(text)
    if ours and theirs and ours[1] == theirs[1]:
        return 0.0, abs(float(ours[2]) - float(theirs[2]))
    return 1.0, -_likeness(name, text)


def _likeness(name: str, text: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), text.lower()).ratio()
