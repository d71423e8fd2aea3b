"""What a refusal of the API means: whether it heals by itself, and what helps.

The API refuses pods and Jobs after it has accepted the JobSet: by a quota, a LimitRange, Pod
Security, or a webhook.  Its sentence is the only source; its controllers repeat the request.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from trainshed.engines.kubernetes.state import reasons


class RefusalFacts(NamedTuple):
    """The meaning of one refusal."""

    text: str
    """The API's sentence and what helps, for users."""
    heals: bool
    """Whether the same request may be accepted later, though no user changes the job."""


def judge_refusal(message: str) -> RefusalFacts:
    """Return the meaning of the API's sentence about an object that it refused."""
    sentence = reasons.describe_refusal(message)
    for pattern, heals, advice in _MEANINGS:
        if match := pattern.search(sentence):
            return RefusalFacts(f"{sentence}; {advice}", heals(match))
    return RefusalFacts(sentence, heals=True)


def _fits_quota(match: "re.Match[str]") -> bool:
    """Return whether a quota would allow the request if no other object used the quota."""
    limits = dict(_AMOUNT.findall(match["limited"]))
    wanted = _AMOUNT.findall(match["requested"])
    return all(
        _read_quantity(amount) <= _read_quantity(limits.get(name, amount))
        for name, amount in wanted
    )


def _read_quantity(text: str) -> float:
    """Return a quantity of the API as a number: ``500m`` is 0.5, ``1Ki`` is 1024."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return 0.0
    return float(match["number"]) * _UNITS[match["unit"]]


def _never(_match: "re.Match[str]") -> bool:
    return False


def _later(_match: "re.Match[str]") -> bool:
    return True


_AMOUNT: Final = re.compile(r"([^\s,=]+)=([^\s,]+)")
_QUANTITY: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[numkMGTPE]?|[KMGTPE]i)")
_UNITS: Final = {
    "": 1.0,
    **{unit: 1000.0 ** (power - 3) for power, unit in enumerate("num")},
    **{unit: 1000.0 ** (power + 1) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": 1024.0 ** (power + 1) for power, unit in enumerate("KMGTPE")},
}

#: The API's sentences: a pattern, whether the refusal heals, and what helps.  The first match
#: counts.
_MEANINGS: Final[tuple[tuple[re.Pattern[str], Callable[["re.Match[str]"], bool], str], ...]] = (
    (
        re.compile(r"exceeded quota: .*requested: (?P<requested>\S+), .*limited: (?P<limited>\S+)"),
        _fits_quota,
        (
            "wait until other objects of the namespace free the quota, or let an administrator "
            "raise the ResourceQuota"
        ),
    ),
    (
        re.compile(r"failed quota: \S+: must specify"),
        _never,
        "let an administrator add a LimitRange with defaults, or change the ResourceQuota",
    ),
    (
        re.compile(r"violates PodSecurity"),
        _never,
        (
            "set the security context in the [[engine]] table, or let an administrator change the "
            "Pod Security level of the namespace"
        ),
    ),
    (
        re.compile(r"(?:maximum|minimum) \S+ usage per|limit to request ratio per"),
        _never,
        (
            "choose another machine type, or let an administrator change the LimitRange of the "
            "namespace"
        ),
    ),
    (
        re.compile(r"strict decoding error: unknown field"),
        _never,
        "update JobSet on the cluster, whose version does not have the field",
    ),
    (
        re.compile(r"is invalid:|strict decoding error|cannot be handled as"),
        _never,
        "correct the job, or the [[engine]] table of the cluster",
    ),
    (
        re.compile(r"failed calling webhook"),
        _later,
        "the webhook must answer: ask its administrator",
    ),
    (
        re.compile(r"denied the request|denied request|ValidatingAdmissionPolicy"),
        _never,
        "a policy of the cluster refuses such pods: ask its administrator",
    ),
    (
        re.compile(r"serviceaccount \S+ not found|no PriorityClass with name"),
        _later,
        "create it, or correct the [[engine]] table of the cluster",
    ),
)
