"""How long an attempt may have its nodes: the job's limit or the partition's, whichever is less."""

import pytest

from trainshed.engines.slurm import options
from trainshed.engines.slurm.parse import Partition
from trainshed.engines.slurm.time_grant import grant_time, longest_s

OPTIONS = options.read({"spool": "/s", "grace_s": 10, "hold_s": 60})
DAY = 24 * 60


def partition(minutes_max):
    return Partition("day", is_default=True, is_up=True, minutes_max=minutes_max, nodes_max=None)


@pytest.mark.parametrize(
    ("limit_s", "minutes_max", "minutes", "ends_s"),
    [
        (None, None, None, None),
        (3600.0, None, 67, 3850.0),
        (3600.0, DAY, 67, 3850.0),
        (604_800.0, DAY, DAY, 86_090.0),
        (None, DAY, DAY, 86_090.0),
        (None, 4, 4, 170.0),  # a quarter of a short time is spare
        (100.0, 4, 4, 170.0),  # that fits, and leaves less spare time than usual
    ],
)
def test_the_smaller_limit_counts(limit_s, minutes_max, minutes, ends_s):
    grant = grant_time(limit_s, partition(minutes_max), OPTIONS)
    assert (grant.minutes, grant.ends_s) == (minutes, ends_s)


def test_an_early_end_names_the_partition_and_the_two_settings():
    grant = grant_time(604_800.0, partition(DAY), OPTIONS)
    for words in (
        "the partition day gives a job (86400 s by its MaxTime",
        "scheduling.timeout",
        "running_days_default",
    ):
        assert words in grant.why
    assert grant_time(3600.0, partition(DAY), OPTIONS).why == ""


def test_a_partition_that_is_too_short_gives_no_time():
    assert longest_s(1, beyond_s=60.0) == 0
    assert longest_s(60, beyond_s=10.0) == 3290
