"""The label by which a tuning job chooses the rule that stops its trials early.

Google's documents have no field for ``AshaRule``, and ``ml_v1`` has none that names a rule.  A new
field in them was rejected: Google's clients refuse unknown fields.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from trainshed.model.labels import WISH
from trainshed.model.study import (
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    MedianRule,
    StoppingRule,
    StudySpec,
)

STOPPING_LABEL: Final = f"{WISH}early-stopping"

#: The rules without numbers, by the value of the label.
NAMED_RULES: Final[Mapping[str, StoppingRule]] = {
    "median": MedianRule(),
    "decay-curve": DecayCurveRule(),
    "convex": ConvexRule(),
}
#: The accepted values of the label, as a refusal says it.
ACCEPTED_RULES: Final = (
    "asha, asha-4 for the best of 4 trials, asha-4-20 for a first rung at step 20, asha-4-20s for "
    f"one after 20 s, {', '.join(NAMED_RULES)}"
)

_ASHA: Final = re.compile(r"asha(?:-([0-9]{1,3})(?:-([0-9]{1,9})(s?))?)?")
_REDUCTION_MIN: Final = 2


def rule_of_label(text: str) -> StoppingRule | None:
    """Return the rule that a value of the label names; None for any other text."""
    match = _ASHA.fullmatch(text)
    return _asha(*match.groups()) if match else NAMED_RULES.get(text)


def _asha(reduction: str | None, first: str | None, unit: str | None) -> AshaRule | None:
    rule = AshaRule(by_time=unit == "s", pauses=unit != "s")
    if reduction is not None:
        rule = replace(rule, reduction=int(reduction))
    if first is not None:
        rule = replace(rule, first_rung=int(first))
    return None if rule.reduction < _REDUCTION_MIN or rule.first_rung == 0 else rule


def stopping_with_labels(study: StudySpec, labels: Mapping[str, str]) -> StoppingRule | None:
    """Return the rule that stops the trials of a study: that of its label, else its own.

    A rule of the study of the same kind counts, because it may have numbers of its own.
    """
    labelled = rule_of_label(labels.get(STOPPING_LABEL, ""))
    return (
        study.stopping if labelled is None or type(labelled) is type(study.stopping) else labelled
    )
