"""The rule about labels that say where the best values of a study's parameters are expected."""

from collections.abc import Iterator, Sequence
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.parameter_values import accepts_value, describe_values
from trainshed.admission.rules.study import judged_study
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.study import Algorithm, ParameterKind, ParameterSpec
from trainshed.model.study_priors import (
    parameters_by_key,
    prior_texts,
    prior_values,
    prior_word,
    read_prior,
)
from trainshed.model.texts import join_or

_WIDTHS: Final = "also with _narrow or _wide behind it"


def study_prior_labels_fit(context: RuleContext) -> Iterator[Violation]:
    """A label ``trainshed-prior-NAME`` has a value of that parameter, in a study that searches."""
    study, texts = judged_study(context), prior_texts(context.submitted_spec.labels)
    if context.submitted_spec.study is None:
        for key in texts:
            yield _broken_prior(key, "is for a tuning job, and this is none", "no such label")
    if study is None or not study.parameters:
        return
    by_key = parameters_by_key(study)
    for key, text in texts.items():
        parameters = by_key.get(key, ())
        names = dict.fromkeys(parameter.parameter_id for parameter in parameters)
        if study.algorithm is not Algorithm.DEFAULT:
            problem = f"is for a search that learns, and the study has {study.algorithm.value}"
            yield _broken_prior(key, problem, "the default algorithm, or no such label")
        elif not parameters:
            yield _broken_prior(key, "names no parameter of the study", join_or(by_key))
        elif len(names) > 1:
            problem = f"may mean each of the parameters {join_or(names)}"
            yield _broken_prior(key, problem, "a parameter whose name is no other's in a label")
        elif all(parameter.bounds or parameter.values for parameter in parameters):
            yield from _check_value(key, text, parameters)


def _check_value(key: str, text: str, parameters: Sequence[ParameterSpec]) -> Iterator[Violation]:
    """Check the value; of several parameters with one name, one must have it."""
    value = read_prior(text, parameters).value
    accepting = [
        [one for one in prior_values(value, parameter) if accepts_value(parameter, one)]
        for parameter in parameters
    ]
    words = max(accepting, key=len)
    if not words:
        accepted = join_or(dict.fromkeys(map(_describe, parameters)))
        yield _broken_prior(key, f"has no value of the parameter, got {text!r}", accepted)
    elif len(words) > 1:
        problem = f"may mean each of the words {join_or(words)}, got {text!r}"
        yield _broken_prior(key, problem, "a word that is no other's in a label")


def _describe(parameter: ParameterSpec) -> str:
    if parameter.kind is ParameterKind.CATEGORICAL:
        return f"{join_or(prior_word(str(word)) for word in parameter.values)}, {_WIDTHS}"
    return f"{describe_values(parameter)}, written as 20, 1e-3 or 25e-2, {_WIDTHS}"


def _broken_prior(key: str, problem: str, accepted: str) -> Violation:
    message = f"the label {key} {problem}"
    return Violation(
        field=FieldPath(Field.LABELS), rule="prior-label", message=message, accepted=accepted
    )
