"""Which names two parameters bear at one time, beside a comparison of each with each."""

from hypothesis import given
from hypothesis import strategies as st

from trainshed.admission.rules.parameters import _find_duplicates
from trainshed.model.study import Condition, ParameterKind, ParameterSpec, StudySpec, occurrences
from trainshed.model.study_places import parameter_at, placed

NAMES = st.sampled_from("ab")
VALUES = st.lists(st.sampled_from("xyz"), max_size=3, unique=True).map(tuple)


def parameter(name, children):
    conditions = tuple(
        Condition(parent_values=values, parameter=child) for values, child in children
    )
    kind = ParameterKind.CATEGORICAL
    return ParameterSpec(
        parameter_id=name, kind=kind, values=("x", "y", "z"), conditions=conditions
    )


PARAMETERS = st.recursive(
    NAMES.map(lambda name: parameter(name, ())),
    lambda inner: st.builds(
        parameter, NAMES | st.just(""), st.lists(st.tuples(VALUES, inner), max_size=5)
    ),
    max_leaves=12,
)


def each_with_each(parameters):
    """The rule, said slowly."""
    duplicates = {}
    all_of_them = [
        (spec.parameter_id, at, conditions)
        for (at, spec), (_, conditions) in zip(
            placed(parameters), occurrences(parameters), strict=True
        )
    ]
    for number, (name, at, one) in enumerate(all_of_them):
        for other_name, _, other in all_of_them[:number]:
            shared = one.keys() & other.keys()
            apart = any(one[parent].isdisjoint(other[parent]) for parent in shared)
            if name and name == other_name and not apart:
                duplicates.setdefault(name, at)
    return duplicates


@given(st.lists(PARAMETERS, max_size=3).map(tuple))
def test_the_names_are_those_of_a_comparison_of_each_with_each(parameters):
    assert _find_duplicates(StudySpec(metrics=(), parameters=parameters)) == each_with_each(
        parameters
    )


@given(st.lists(PARAMETERS, max_size=3).map(tuple))
def test_a_parameter_is_found_at_its_position(parameters):
    for at, spec in placed(parameters):
        assert parameter_at(parameters, at) is spec
        assert parameter_at(parameters, (*at, len(spec.conditions))) is None
    assert parameter_at(parameters, ()) is None
    assert parameter_at(parameters, (len(parameters),)) is None
