"""What a HyperparameterSpec calls the places of a study: total, as all words are.

There is one metric and no condition here, and a study ends with its last trial.  What the dialect
cannot say is the whole HyperparameterSpec's matter.
"""

from collections.abc import Mapping
from typing import Final

from trainshed.model.study import ParameterKind, StudySpec
from trainshed.model.study_places import StudyField, StudyPlace, parameter_at

HYPERPARAMETERS: Final = "trainingInput.hyperparameters"

#: Fields of the whole study.
OF_STUDY: Final[Mapping[StudyField, str]] = {
    StudyField.ALGORITHM: ".algorithm",
    StudyField.TRIALS_MAX: ".maxTrials",
    StudyField.TRIALS_PARALLEL: ".maxParallelTrials",
    StudyField.TRIALS_FAILED: ".maxFailedTrials",
    StudyField.METRICS: ".hyperparameterMetricTag",
    StudyField.METRIC_ID: ".hyperparameterMetricTag",
    StudyField.STOPPING: ".enableTrialEarlyStopping",
    StudyField.PARAMETERS: ".params",
}

#: Fields of one parameter.
OF_PARAMETER: Final[Mapping[StudyField, str]] = {
    StudyField.PARAMETER_ID: ".parameterName",
    StudyField.KIND: ".type",
    StudyField.LEAST: ".minValue",
    StudyField.MOST: ".maxValue",
    StudyField.SCALE: ".scaleType",
}
VALUES_OF_KIND: Final[Mapping[ParameterKind, str]] = {
    ParameterKind.CATEGORICAL: ".categoricalValues",
    ParameterKind.DISCRETE: ".discreteValues",
}


def words_of(place: StudyPlace, study: StudySpec) -> str:
    """A dotted name, such as ``trainingInput.hyperparameters.params[0].minValue``."""
    field = place.field
    if field is StudyField.VALUES:
        return f"{HYPERPARAMETERS}.params[{place.at[0]}]{_values(place, study)}"
    if field in OF_PARAMETER:
        return f"{HYPERPARAMETERS}.params[{place.at[0]}]{OF_PARAMETER[field]}"
    return HYPERPARAMETERS + OF_STUDY.get(field, "")


def _values(place: StudyPlace, study: StudySpec) -> str:
    parameter = parameter_at(study.parameters, place.at)
    return VALUES_OF_KIND.get(parameter.kind, "") if parameter else ""
