"""Labels that say where a caller expects the best value of a parameter of a tuning study.

Google's documents have no field for it, and Google's clients refuse unknown fields.  A label has
only the characters ``a-z0-9_-``, so names of parameters and words become such texts: capitals
become lower case, and other characters ``_``.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from trainshed.model.labels import WISH
from trainshed.model.study import (
    ParameterKind,
    ParameterPrior,
    ParameterSpec,
    PriorWidth,
    StudySpec,
    parameters_of,
)

#: The beginning of the keys of these labels; the parameter's name follows.
PRIOR_LABEL: Final = f"{WISH}prior-"

#: The longest text of a label's key or value, and of a word in one that may have a width.
_CHARS_MAX: Final = 63
_WORD_MAX: Final = 56

_OTHER: Final = re.compile(r"[^a-z0-9_-]")
_NUMBER: Final = re.compile(r"-?[0-9]+(e-?[0-9]+)?")
#: The ends of a label's value that are a width.
WIDTH_ENDINGS: Final = {f"_{width.value}": width for width in (PriorWidth.NARROW, PriorWidth.WIDE)}


def prior_key(parameter_id: str) -> str:
    """Return the key of the label of a parameter; two parameters may have the same one."""
    return f"{PRIOR_LABEL}{_OTHER.sub('_', parameter_id.lower())}"[:_CHARS_MAX]


def prior_word(word: str) -> str:
    """Return a word of a list as labels have it; two words may become the same one."""
    return _OTHER.sub("_", word.lower())[:_WORD_MAX]


def prior_number(text: str) -> str | None:
    """Return a number as labels have it, such as ``5e-4`` for ``0.0005``; None for other texts."""
    if _NUMBER.fullmatch(text):
        return text
    try:
        sign, digits, exponent = Decimal(text).normalize().as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):  # infinity, or no number
        return None
    whole = "-" * sign + "".join(map(str, digits))
    return f"{whole}e{exponent}" if exponent else whole


def prior_texts(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that are priors."""
    return {key: text for key, text in labels.items() if key.startswith(PRIOR_LABEL)}


def parameters_by_key(study: StudySpec) -> dict[str, list[ParameterSpec]]:
    """Return the parameters that each possible key names: mostly one."""
    by_key: dict[str, list[ParameterSpec]] = {}
    for parameter in parameters_of(study):
        by_key.setdefault(prior_key(parameter.parameter_id), []).append(parameter)
    return by_key


def read_prior(text: str, parameters: Sequence[ParameterSpec]) -> ParameterPrior:
    """Read the value of a label of parameters of one name.

    A word that itself ends with a width counts as a word.
    """
    parameter_id = parameters[0].parameter_id
    if not any(prior_values(text, parameter) for parameter in parameters):
        for ending, width in WIDTH_ENDINGS.items():
            if text.endswith(ending):
                value = text.removesuffix(ending)
                return ParameterPrior(parameter_id=parameter_id, value=value, width=width)
    return ParameterPrior(parameter_id=parameter_id, value=text)


def prior_values(text: str, parameter: ParameterSpec) -> list[str | float]:
    """Return what a label's value, without a width, may mean: words of a list, or a number."""
    if parameter.kind is ParameterKind.CATEGORICAL:
        words = map(str, parameter.values)
        return [word for word in words if text in {prior_word(word), prior_number(word)}]
    return [float(text)] if _NUMBER.fullmatch(text) else []


def priors_of_labels(study: StudySpec, labels: Mapping[str, str]) -> tuple[ParameterPrior, ...]:
    """Return the priors of labels that admission has accepted, in the order of the parameters."""
    texts = prior_texts(labels)
    return tuple(
        read_prior(texts[key], parameters)
        for key, parameters in parameters_by_key(study).items()
        if key in texts
    )


def describe_prior(prior: ParameterPrior) -> str:
    """Describe a prior in a few words, such as ``lr near 1e-3 (narrow)``."""
    width = "" if prior.width is PriorWidth.USUAL else f" ({prior.width.value})"
    return f"{prior.parameter_id} near {prior.value}{width}"
