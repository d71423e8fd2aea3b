from dataclasses import replace

import pytest

from trainshed.planning.scaling.devices_compared import Prices, Rate, decision

CPU = Rate(name="CPU", count=1, seconds=1.0, samples=32.0, uncertainty=0.02)


def gpus(seconds, count=1, samples=32.0):
    return Rate(name="GPU", count=count, seconds=seconds, samples=samples, uncertainty=0.02)


def test_samples_are_compared_where_both_tell_them():
    assert gpus(0.5, samples=64.0).times(CPU).point == pytest.approx(4.0)
    assert gpus(0.5, samples=0.0).times(CPU).point == pytest.approx(2.0)


def test_several_gpus_are_told_beside_one():
    lines = list(decision(CPU, [gpus(0.1), gpus(0.125, count=4)]))
    assert "less than 10 (9.82 to 10.2) times as much" in lines[0]
    assert lines[1].startswith("4 GPUs are 3.2 (")
    assert "less than 32 (" in lines[1]


@pytest.mark.parametrize(
    ("one_gpu", "line"),
    [
        (5.0, "By these prices 4 GPUs are cheapest."),
        (30.0, "By these prices the CPU is cheapest."),
    ],
)
def test_prices_choose_a_count(one_gpu, line):
    prices = Prices(cpu=1.0, one_gpu=one_gpu)
    devices = [gpus(0.1), gpus(0.1, count=4)]
    assert list(decision(CPU, devices, prices))[-1] == line


def test_where_intervals_reach_over_the_price_nothing_is_told():
    lines = list(decision(CPU, [gpus(0.1)], Prices(cpu=1.0, one_gpu=10.0)))
    assert "That difference is within the uncertainty." in lines


def test_without_a_gpu_nothing_is_said_of_one():
    (line,) = decision(CPU, [])
    assert "nothing about a GPU" in line


def test_a_gpu_that_is_hardly_faster_does_not_pay():
    (line,) = decision(CPU, [gpus(0.9)])
    assert line.startswith("A GPU is not worth its price: it is 1.11 (")


def test_a_trainer_s_own_line_has_no_interval():
    alone = replace(gpus(0.1), uncertainty=None)
    (line,) = decision(CPU, [alone])
    assert "less than 10 times as much" in line
