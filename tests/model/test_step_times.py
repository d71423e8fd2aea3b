"""A trainer's report of its steps is a stranger's text."""

import pytest

from trainshed.model.step_times import VERSION, step_times_of


def test_micro_batches_and_memory_are_read():
    document = {"micro_batches": 4, "host_bytes": 2e9, "device_bytes": 5e9}
    times = step_times_of({**report(state_bytes=1e9, device="cuda"), **document})
    assert (times.micro_batches, times.state_bytes) == (4, 1e9)
    assert (times.host_bytes, times.device_bytes, times.device) == (2e9, 5e9, "cuda")


def report(**model):
    return {"version": VERSION, "steps": 40, "first": [], "recent": [], "model": model}


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ("torch 2.9 cuda", "torch 2.9 cuda"),
        ("torch \ud800", "torch "),
        ("a\x00b\x1b[2Jc\u202e\n", "ab[2Jc"),
        ("x" * 500, "x" * 200),
        (None, ""),
    ],
)
def test_of_a_stack_what_can_be_printed_stays(stack, expected):
    assert step_times_of(report(stack=stack)).stack == expected


def test_the_numbers_of_steps_are_read_and_may_be_absent():
    times = step_times_of({**report(), "first_step": 7, "last_step": None, "stalled_s": 2.5})
    assert (times.first_step, times.last_step, times.stalled_s) == (7, None, 2.5)
    assert step_times_of(report()).first_step is None
    assert [step_times_of({**report(), "counted": value}).counted for value in (True, 1)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("number", [10**300, -1, float("nan"), "7", True, [7]])
def test_a_number_of_no_step_makes_the_file_invalid(number):
    with pytest.raises(ValueError, match="last_step must be a number from 0"):
        step_times_of({**report(), "last_step": number})
