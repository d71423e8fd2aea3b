"""What the samples of a GPU say together, with a clock of the test."""

from datetime import UTC, datetime

import pytest

from trainshed.engines.local.devices.history import GpuHistory
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.engines.supervise.record.gpu_means import GAP_S
from trainshed.model.gpus import GpuSample

AT = datetime(2026, 11, 30, tzinfo=UTC)


def sample(use=0.0, **figures):
    return GpuSample(at=AT, use=use, **figures)


def after(*samples):
    """A history with one sample a second; None is a second without one."""
    history = GpuHistory()
    for second, present in enumerate(samples):
        if present is not None:
            history.add(present, float(second))
    return history


@pytest.mark.parametrize(
    ("uses", "unused_s"),
    [
        ([0.0], 0),
        ([0.0, 0.0, 0.0], 2),
        ([0.0, 0.0, 0.5], 0),
        ([0.5, 0.0, 0.0], 1),
        ([0.0, 0.5, 0.0, 0.0, 0.0], 2),
        ([0.0, None], None),  # MIG, or a driver that stopped telling
        ([None], None),
        ([], None),
    ],
)
def test_the_time_without_use_has_no_break(uses, unused_s):
    assert after(*map(sample, uses)).unused_s(max(0, len(uses) - 1)) == unused_s


def test_a_use_that_was_not_measured_for_a_moment_ends_the_time_without_use():
    assert after(sample(), sample(None), sample(), sample()).unused_s(3.0) == 1.0


def test_after_a_gap_nobody_knows_whether_it_was_used():
    history = after(sample(), *[None] * 60, sample(), sample())
    assert history.unused_s(62.0) == 1.0
    assert history.unused_s(62.0 + GAP_S + 1) is None


def test_a_counter_of_the_driver_is_energy_as_it_is():
    completed = GpuHistory().add(sample(power_w=300.0, energy_j=7e6), 0.0)
    assert (completed.energy_j, completed.is_energy_summed) == (7e6, False)


def test_without_a_counter_power_is_summed_and_that_is_said():
    history = GpuHistory()
    times = (0.0, 1.0, 2.0, 3.0, 63.0)  # a minute without a sample
    readings = [history.add(sample(power_w=100.0), now_s) for now_s in times]
    assert [reading.energy_j for reading in readings] == [0, 100, 200, 300, 300]
    assert all(reading.is_energy_summed for reading in readings)


def test_a_counter_that_answers_late_is_never_taken_for_used_energy():
    history = after(sample(power_w=100.0))
    assert history.add(sample(power_w=100.0, energy_j=7e6), 1.0).energy_j == 100.0
    counting = after(sample(power_w=100.0, energy_j=7e6))
    assert counting.add(sample(power_w=100.0), 1.0).energy_j is None


def test_a_gpu_that_measures_nothing_has_no_figures():
    history = GpuHistory()
    completed = history.add(GpuSample(at=AT), 0.0)
    assert (completed.use_minute, completed.energy_j) == (None, None)
    assert history.take_figures(1.0, 0.0) == GpuFigures()


def test_figures_are_means_since_the_last_ones_and_ten_minutes_of_them_stay():
    history = after(
        sample(0.2, power_w=100.0, used_bytes=1, temperature_c=50, energy_j=1.0),
        sample(0.4, power_w=300.0, used_bytes=3, temperature_c=60, energy_j=2.0),
    )
    assert history.take_figures(10.0, 1.0) == GpuFigures(
        pytest.approx(0.3), 3.0, 200.0, 60.0, 2.0, unused_s=0.0
    )
    assert history.take_figures(20.0, 1.0) == GpuFigures(None, 3.0, None, 60.0, 2.0, unused_s=0.0)
    for number in range(100):
        history.take_figures(float(number), 1.0)
    assert len(history.recent) == 60


def test_the_time_without_use_goes_on_after_a_restart():
    history = GpuHistory(unused_s=300.0)
    history.add(sample(0.0), 5.0)
    assert history.unused_s(7.0) == 302.0
    assert history.take_figures(0.0, 8.0).unused_s == 303.0
    used = GpuHistory(unused_s=300.0)
    used.add(sample(0.5), 5.0)
    used.add(sample(0.0), 6.0)
    assert used.unused_s(7.0) == 1.0


def test_the_use_of_the_job_before_is_not_that_of_the_next_job():
    history = after(sample(1.0, power_w=700.0), sample(1.0, power_w=700.0))
    history.forget_means()
    assert history.add(sample(0.0, power_w=100.0), 2.0).use_minute == 0.0
    figures = history.take_figures(10.0, 2.0)
    assert (figures.use, figures.power) == (0.0, 100.0)
