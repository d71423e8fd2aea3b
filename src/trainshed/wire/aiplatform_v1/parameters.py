"""The parameters of a StudySpec to the model's (R19; contracts/vertex-sdk.md 8)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from trainshed.model.study import Condition, ParameterKind, ParameterSpec
from trainshed.wire.study_words import SCALE, bounds_of

Json = Mapping[str, Any]


def parameter_of(value: Json) -> ParameterSpec:
    """A parameter; one that says no values at all is a list of none."""
    name = next((name for name in VALUES if name in value), "discreteValueSpec")
    kind, read = VALUES[name]
    return ParameterSpec(
        parameter_id=value.get("parameterId", ""),
        kind=kind,
        scale=SCALE[value.get("scaleType", "SCALE_TYPE_UNSPECIFIED")],
        conditions=tuple(map(_condition, value.get("conditionalParameterSpecs", ()))),
        **read(value.get(name, {})),
    )


def _range(value: Json) -> Json:
    return {"bounds": bounds_of(value), "default": _number(value.get("defaultValue"))}


def _words(value: Json) -> Json:
    return {"values": tuple(value.get("values", ())), "default": value.get("defaultValue")}


def _numbers(value: Json) -> Json:
    return {"values": _floats(value), "default": _number(value.get("defaultValue"))}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _floats(value: Json) -> tuple[float, ...]:
    return tuple(float(each) for each in value.get("values", ()))


#: The alternatives of a parameter's values, and how each is read.
VALUES: Final[Mapping[str, tuple[ParameterKind, Callable[[Json], Json]]]] = {
    "doubleValueSpec": (ParameterKind.DOUBLE, _range),
    "integerValueSpec": (ParameterKind.INTEGER, _range),
    "categoricalValueSpec": (ParameterKind.CATEGORICAL, _words),
    "discreteValueSpec": (ParameterKind.DISCRETE, _numbers),
}

#: The alternatives of a parent's values.
PARENT_VALUES: Final[Mapping[str, Callable[[Json], tuple[str | float, ...]]]] = {
    "parentDiscreteValues": _floats,
    "parentIntValues": _floats,
    "parentCategoricalValues": lambda value: tuple(value.get("values", ())),
}


def _condition(value: Json) -> Condition:
    given = (read(value[name]) for name, read in PARENT_VALUES.items() if name in value)
    return Condition(
        parent_values=next(given, ()), parameter=parameter_of(value.get("parameterSpec", {}))
    )
