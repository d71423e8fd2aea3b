"""Comments of Slurm jobs: whose a job is, and which attempt it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.slurm import parse
from trainshed.engines.slurm.comments import (
    compose_comment,
    describe_owner,
    is_job_of,
    key_of,
    owner_of,
)
from trainshed.model.attempt import AttemptKey

KEY = AttemptKey(4611686018427387904, 2)
TEXTS = st.text(max_size=200)


@pytest.mark.parametrize(
    ("comment", "key", "owner"),
    [
        ("7/1", AttemptKey(7, 1), ""),  # of an earlier release, as the next one
        ("7/1 kept", AttemptKey(7, 1), ""),
        (
            "7/1 vision: ring by alice@example.com",
            AttemptKey(7, 1),
            "vision: ring by alice@example.com",
        ),
        ("7/1 kept vision: kept by alice", AttemptKey(7, 1), "vision: kept by alice"),
        ("", None, ""),
        ("x", None, ""),
        ("7/x", None, ""),
        ("7", None, ""),
        ("9" * 40 + "/1", None, ""),
    ],
)
def test_comments_of_all_releases_are_read(comment, key, owner):
    assert (key_of(comment), owner_of(comment)) == (key, owner)


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_whatever_a_job_is_called_its_comment_is_one_short_field_of_squeue(
    project, name, creator, is_kept
):
    owner = describe_owner(project, name, creator)
    comment = compose_comment(KEY, owner, is_kept=is_kept)
    assert len(comment) <= 210
    (row,) = parse.jobs(f"7|RUNNING|n1|N/A|ts-a|{comment}|None")
    assert (row.comment, row.reason) == (comment, "")
    assert (key_of(row.comment), owner_of(row.comment)) == (KEY, owner)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("vision", "ring", "alice"), "vision: ring by alice"),
        (("vision", "", "alice"), "vision: by alice"),
        (("vision", "", ""), "vision"),
        (("", "", ""), ""),
        (("vision", "a|b\nc\u00e9", ""), "vision: a_b_c_"),
        (("vision", "x" * 60, ""), f"vision: {'x' * 45}..."),
    ],
)
def test_whose_a_job_is(words, expected):
    assert describe_owner(*words) == expected


def test_a_kept_allocation_is_the_job_of_later_attempts():
    assert is_job_of("7/2 vision", AttemptKey(7, 2), 0)
    assert not is_job_of("7/1 kept vision", AttemptKey(7, 2), 0)
    assert is_job_of("7/1 kept vision", AttemptKey(7, 2), 1)
    assert not is_job_of("8/1 kept", AttemptKey(7, 2), 1)
