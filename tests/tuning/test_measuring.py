"""What programs report becomes ordered measurements, and one of them counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.attempt import Report
from trainshed.model.study import Goal, Metric, Safety, Selection, StudySpec
from trainshed.model.trials import Measurement
from trainshed.tuning.measuring import final, measurements

BOTH = ("acc", "loss")


def report(tag, value, step=0, at=0.0):
    return Report(tag=tag, value=value, step=step, elapsed_s=at)


def rows_of(points):
    return [(point.step, point.elapsed_s, dict(point.metrics)) for point in points]


def study(*metrics, selection=Selection.LAST):
    return StudySpec(
        metrics=metrics or (Metric(metric_id="acc"),), parameters=(), selection=selection
    )


def ended(spec, reports, search_note=""):
    names = [metric.metric_id for metric in spec.metrics]
    return final(spec, measurements(reports, names), reports, search_note)


def test_metrics_of_one_step_are_one_measurement():
    reports = [report("acc", 0.5, 1, 1.0), report("loss", 2.0, 1, 1.5), report("acc", 0.6, 2, 2.0)]
    assert rows_of(measurements(reports, BOTH)) == [
        (1, 1.5, {"acc": 0.5, "loss": 2.0}),
        (2, 2.0, {"acc": 0.6}),
    ]


def test_a_metric_that_comes_again_at_its_step_begins_another_measurement():
    reports = [report("acc", 0.5, 3, 1.0), report("loss", 2.0, 3, 1.0), report("acc", 0.7, 3, 2.0)]
    assert rows_of(measurements(reports, BOTH)) == [
        (3, 1.0, {"acc": 0.5, "loss": 2.0}),
        (3, 2.0, {"acc": 0.7}),
    ]


def test_a_program_without_steps_and_with_a_coarse_clock_has_distinct_measurements():
    points = measurements([report("acc", value) for value in (0.1, 0.3, 0.2)], ["acc"])
    assert [point.value("acc") for point in points] == [0.1, 0.3, 0.2]
    assert [point.elapsed_s for point in points] == pytest.approx([0.0, 1e-6, 2e-6])


def test_metrics_that_were_not_asked_for_are_left_out():
    assert measurements([report("lr", 0.1, 1)], ["acc"]) == ()


def test_one_metric_after_the_other_still_meets_at_the_steps():
    reports = [report(tag, float(step), step) for tag in BOTH for step in (1, 2)]
    assert rows_of(measurements(reports, BOTH)) == [
        (1, 0.0, {"acc": 1.0, "loss": 1.0}),
        (2, 0.0, {"acc": 2.0, "loss": 2.0}),
    ]


def test_after_a_restart_the_later_report_of_a_step_counts_and_others_stay():
    first = [report("acc", 0.1 * step, step, 10.0 * step) for step in (1, 2, 3)]
    again = [report("acc", 0.9, 2, 1.0)]
    assert rows_of(measurements([*first, *again], ["acc"])) == [
        (1, 10.0, {"acc": 0.1}),
        (2, 1.0, {"acc": 0.9}),
        (3, 30.0, {"acc": pytest.approx(0.3)}),
    ]


def test_a_restart_replaces_every_measurement_of_its_step_and_each_metric_for_itself():
    first = [report(tag, value, 1, value) for value in (1.0, 2.0) for tag in BOTH]
    later = [report("acc", 5.0, 2, 5.0), report("acc", 7.0, 1, 6.0)]
    assert rows_of(measurements([*first, *later], BOTH)) == [
        (1, 1.0, {"loss": 1.0}),
        (1, 6.0, {"acc": 7.0, "loss": 2.0}),
        (2, 5.0, {"acc": 5.0}),
    ]


def test_a_clock_that_goes_back_is_the_restart_of_a_program_without_steps():
    reports = [report("acc", 0.1, at=5.0), report("acc", 0.2, at=9.0), report("acc", 0.3, at=6.0)]
    assert rows_of(measurements(reports, ["acc"])) == [
        (0, 5.0, {"acc": 0.1}),
        (0, 6.0, {"acc": 0.3}),
    ]


values = st.floats(allow_nan=True, allow_infinity=True)
streams = st.lists(
    st.builds(
        report,
        st.sampled_from((*BOTH, "lr")),
        values,
        st.integers(0, 4),
        st.integers(0, 9).map(float),
    ),
    max_size=40,
)


@given(streams)
def test_measurements_strictly_ascend_and_are_finite_and_never_empty(reports):
    points = measurements(reports, BOTH)
    places = [(point.step, point.elapsed_s) for point in points]
    assert places == sorted(set(places))
    assert all(point.metrics for point in points)
    assert all(math.isfinite(value) for point in points for _, value in point.metrics)
    assert {name for point in points for name, _ in point.metrics} <= set(BOTH)


@given(streams)
def test_the_last_finite_report_of_a_metric_is_never_lost(reports):
    last = {r.tag: r for r in reports}
    points = measurements(reports, BOTH)
    for tag in BOTH:
        if tag in last and math.isfinite(last[tag].value):
            at = [point.value(tag) for point in points if point.step == last[tag].step]
            assert last[tag].value in at


@given(streams, st.sampled_from(Selection), st.booleans())
def test_a_trial_has_a_final_measurement_with_every_metric_or_a_reason(reports, selection, single):
    spec = study(*(Metric(metric_id=name) for name in BOTH[: 2 - single]), selection=selection)
    measurement = ended(spec, reports, "nothing was there")
    if isinstance(measurement, str):
        assert measurement
    else:
        assert [name for name, _ in measurement.metrics] == [
            metric.metric_id for metric in spec.metrics
        ]
        assert all(math.isfinite(value) for _, value in measurement.metrics)


def test_last_is_what_was_reported_last():
    reports = [report("acc", 0.9, 1, 1.0), report("acc", 0.5, 2, 2.0)]
    assert ended(study(), reports) == Measurement(step=2, elapsed_s=2.0, metrics=(("acc", 0.5),))


def test_last_is_of_the_restarted_program_though_the_first_one_came_further():
    reports = [report("acc", 0.1, 1), report("acc", 0.2, 9), report("acc", 0.3, 1)]
    assert ended(study(), reports).metrics == (("acc", 0.3),)


@pytest.mark.parametrize(("goal", "step"), [(Goal.MAXIMIZE, 1), (Goal.MINIMIZE, 3)])
def test_best_goes_by_the_goal(goal, step):
    reports = [report("acc", value, at) for at, value in ((1, 0.9), (2, 0.5), (3, 0.1))]
    spec = study(Metric(metric_id="acc", goal=goal), selection=Selection.BEST)
    assert ended(spec, reports).step == step


def test_best_has_every_metric_where_it_can():
    reports = [report("acc", 0.9, 1), report("acc", 0.7, 2), report("loss", 3.0, 2)]
    metrics = tuple(Metric(metric_id=name) for name in BOTH)
    measurement = ended(study(*metrics, selection=Selection.BEST), reports)
    assert (measurement.step, dict(measurement.metrics)) == (2, {"acc": 0.7, "loss": 3.0})


def test_best_takes_what_it_lacks_from_the_nearest_before_it():
    metrics = tuple(Metric(metric_id=name) for name in BOTH)
    reports = [
        *[report("loss", float(step), step) for step in (1, 3, 7)],
        *[report("acc", value, step) for step, value in ((2, 0.5), (4, 0.9), (6, 0.7))],
    ]
    measurement = ended(study(*metrics, selection=Selection.BEST), reports)
    assert (measurement.step, dict(measurement.metrics)) == (4, {"acc": 0.9, "loss": 3.0})


def test_last_merges_the_latest_of_each_metric():
    metrics = tuple(Metric(metric_id=name) for name in BOTH)
    reports = [report("loss", 1.0, 1), report("acc", 0.5, 2), report("loss", 0.8, 3)]
    measurement = ended(study(*metrics), reports)
    assert (measurement.step, dict(measurement.metrics)) == (2, {"acc": 0.5, "loss": 0.8})


def test_a_metric_that_never_came_is_named_with_the_place_and_what_was_there():
    reason = ended(
        study(), [report("lr", 0.1), report("lr", 0.2)], "/x/output.metrics has the tag lr"
    )
    assert reason == (
        "The trial ended without the metric 'acc'; /x/output.metrics has the tag lr; "
        "it has reported lr (2 times); have the program report it under this name, or give the "
        "study the name of a metric that the program reports"
    )


def test_a_safety_metric_that_never_came_is_named_as_one():
    limit = Metric(metric_id="memory", safety=Safety(threshold=1.0))
    reason = ended(study(Metric(metric_id="acc"), limit), [report("acc", 0.1)])
    assert "without the safety metric 'memory'" in reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_last_value_that_is_no_number_is_infeasible(value):
    assert ended(study(), [report("acc", 0.5, 1), report("acc", value, 2)]) == (
        f"The last acc was {value}"
    )


def test_best_takes_the_best_finite_value():
    spec = study(selection=Selection.BEST)
    reports = [report("acc", 0.5, 1), report("acc", math.inf, 2), report("acc", math.nan, 3)]
    assert ended(spec, reports).metrics == (("acc", 0.5),)
    assert ended(spec, reports[1:]) == "Every acc was nan or infinite; the last was nan"
