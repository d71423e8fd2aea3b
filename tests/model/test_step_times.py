"""A trainer's report of its steps is a stranger's text."""

import pytest

from trainshed.model.step_times import VERSION, step_times_of


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
