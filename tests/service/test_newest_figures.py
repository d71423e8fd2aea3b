"""How far an attempt is, from its newest samples."""

import pytest

from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.service.figures.newest_figures import (
    NewestFigures,
    newest_figures,
    summarize_line,
)

NOW_S = 1000.0


def line(at, gpus=(), **steps):
    replicas = {
        task.replace("_", "-"): ReplicaUsage(step=step, total=500) for task, step in steps.items()
    }
    uses = {
        f"GPU-{n}": GpuUsage(use=None if use is None else Spread(0, use, 1))
        for n, use in enumerate(gpus)
    }
    return UsageLine(at, 10, replicas, uses)


def figures_of(lines):
    return newest_figures([*map(summarize_line, lines)], NOW_S)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], NewestFigures()),
        ([line(990)], NewestFigures()),
        ([line(990, a=(0, 5))], NewestFigures(5, 500, 2.0)),
        ([line(980, a=(0, 10)), line(990, a=(10, 30))], NewestFigures(30, 500, 0.5)),
        # one sample a line, at its end
        (
            [line(970, a=(50, 50)), line(980, a=(110, 110)), line(990, a=(170, 170))],
            NewestFigures(170, 500, 10 / 60),
        ),
        ([line(980, a=(0, 90)), line(990, a=(95, 20))], NewestFigures(20, 500, None)),
        # it began again at step 10 after a restart inside the attempt
        ([line(980, a=(90, 100)), line(990, a=(10, 20))], NewestFigures(20, 500, 1.0)),
        ([line(980, a=(7, 7)), line(990, a=(7, 7))], NewestFigures(7, 500, None)),
        ([line(990, a=(0, 10), b=(0, 4))], NewestFigures(4, 500, 2.5)),
        ([line(980, a=(0, 10)), line(990)], NewestFigures(10, 500, 1.0)),
        ([line(990, gpus=(0.5, 1.0))], NewestFigures(gpu_use=0.75)),
        ([line(990, gpus=(0.5, None))], NewestFigures(gpu_use=0.5)),
        ([line(990, gpus=(None,))], NewestFigures()),
        ([line(980, gpus=(0.5,)), line(990)], NewestFigures()),
        ([line(600, gpus=(0.5,))], NewestFigures()),
    ],
)
def test_the_newest_figures(lines, expected):
    assert figures_of(lines)._replace(reported_s=None) == expected


@pytest.mark.parametrize(
    ("lines", "reported_s"),
    [
        ([line(980, a=(0, 10)), line(990)], 980),
        ([line(980, a=(0, 10)), line(990, b=(0, 1))], 990),
        ([UsageLine(980, 10, {"a": ReplicaUsage(values={"loss": Spread(1, 1, 1)})})], 980),
        ([line(980)], None),
    ],
)
def test_the_last_report_is_in_the_newest_sample_with_a_step_or_a_value(lines, reported_s):
    assert figures_of(lines).reported_s == reported_s
