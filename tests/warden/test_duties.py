"""What a warden does next, from what it knows and what it has done."""

import itertools

import pytest

from trainshed.engines.warden.duties import Duty, WardenFacts, list_due

QUIET = WardenFacts(
    has_fault=False, has_started=False, has_exited=False, is_ordered=False, has_launcher=True
)
#: Facts that differ from those of a warden that waits, what it has done, what it must do.
ROWS = [
    ({}, [], []),
    ({"has_fault": True}, [], [Duty.TELL_FAULT]),
    ({"has_fault": True}, [Duty.TELL_FAULT], []),
    ({"has_started": True}, [], [Duty.TELL_START]),
    ({"has_started": True, "has_exited": True}, [], [Duty.TELL_START, Duty.TELL_EXIT]),
    ({"has_started": True, "has_exited": True}, [Duty.TELL_START], [Duty.TELL_EXIT]),
    ({"has_started": True, "has_fault": True}, [Duty.TELL_START], []),
    ({"has_exited": True, "is_ordered": True}, [], [Duty.TELL_EXIT, Duty.TELL_EMPTY]),
    ({"is_ordered": True}, [Duty.TELL_EMPTY], []),
    ({"is_ordered": True, "has_launcher": False}, [], [Duty.TELL_EMPTY]),
    ({"is_ordered": True, "has_launcher": False}, [Duty.TELL_EMPTY], [Duty.LEAVE]),
    ({"has_launcher": False}, [], []),
]


@pytest.mark.parametrize(("changes", "done", "due"), ROWS)
def test_a_warden_does_next(changes, done, due):
    facts = QUIET._replace(**changes)
    assert list(list_due(lambda: facts, done)) == due


def perform(facts, done):
    """Performs what is due once, as a warden does."""
    for duty in list_due(lambda: facts, done):
        done += [duty]


def test_whatever_is_known_nothing_is_done_twice_and_no_program_is_left_behind():
    for cells in itertools.product([False, True], repeat=len(WardenFacts._fields)):
        done = []
        for _ in Duty:
            perform(WardenFacts(*cells), done)
        assert len(done) == len(set(done))
        assert not {Duty.TELL_FAULT, Duty.TELL_START} <= set(done)
        if Duty.LEAVE in done:
            assert done.index(Duty.TELL_EMPTY) < done.index(Duty.LEAVE)


def test_a_warden_without_a_launcher_leaves_in_the_pass_that_finds_nothing_alive():
    done = []
    perform(QUIET._replace(is_ordered=True, has_launcher=False), done)
    assert done == [Duty.TELL_EMPTY, Duty.LEAVE]
