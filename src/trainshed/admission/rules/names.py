"""Rules about names that other users can list and read.

Ids, labels, images, regions and buckets have narrower rules of their own.
"""

from collections.abc import Iterator

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.study import judged_study
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.study_places import StudyField, StudyPlace, placed
from trainshed.model.visible import hidden

ACCEPTED = "letters, digits, signs and blanks of any language"


def names_hide_nothing(context: RuleContext) -> Iterator[Violation]:
    """Names have no control or format characters: these control terminals or reverse text."""
    for where, name in _names(context):
        if escape := hidden(name):
            message = f"the name {name!r} contains the hidden character {escape}"
            yield Violation(
                field=where, rule="hidden-characters", message=message, accepted=ACCEPTED
            )


def _names(context: RuleContext) -> Iterator[tuple[FieldPath, str]]:
    yield FieldPath(Field.DISPLAY_NAME), context.submitted_spec.display_name
    study = judged_study(context)
    if study is None:
        return
    for index, metric in enumerate(study.metrics):
        at = StudyPlace(StudyField.METRIC_ID, (index,))
        yield FieldPath(Field.STUDY, place=at), metric.metric_id
    for position, parameter in placed(study.parameters):
        at = StudyPlace(StudyField.PARAMETER_ID, position)
        yield FieldPath(Field.STUDY, place=at), parameter.parameter_id
