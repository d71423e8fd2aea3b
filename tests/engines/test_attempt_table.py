"""The attempts that an engine remembers."""

import logging

import pytest

from trainshed.engines import attempt_table
from trainshed.engines.attempt_table import AttemptTable
from trainshed.model.attempt import AttemptKey, Observation, Phase

FIRST, SECOND, THIRD = (AttemptKey(7, number) for number in (1, 2, 3))


class Entry:
    def __init__(self, key):
        self.key, self.phase = key, Phase.READY


def look(entry):
    if isinstance(entry.phase, Exception):
        raise entry.phase
    return Observation(key=entry.key, phase=entry.phase)


@pytest.fixture
def table():
    return AttemptTable(Entry, look, is_over=lambda entry: entry.phase is Phase.ENDED)


def test_an_entry_is_made_once(table):
    assert table.peek(FIRST) is None
    assert table.get(FIRST) is table.get(FIRST) is table.peek(FIRST)
    assert table.list_all() == [table.get(FIRST)]


def test_a_folder_that_cannot_be_read_is_unknown_logged_once_and_hides_no_other(table, caplog):
    table.get(FIRST).phase = OSError("no such device")
    with caplog.at_level(logging.WARNING):
        phases = [table.observe(key).phase for key in (FIRST, SECOND, FIRST)]
    assert phases == [Phase.UNKNOWN, Phase.READY, Phase.UNKNOWN]
    assert [record.getMessage() for record in caplog.records] == ["cannot observe the attempt 7/1"]
    table.get(FIRST).phase = Phase.READY
    assert table.observe(FIRST).phase is Phase.READY


@pytest.mark.parametrize(
    ("phase", "answer", "may_live"),
    [
        (Phase.WAITING, False, True),
        (Phase.STARTING, False, True),
        (Phase.READY, False, True),
        (Phase.ENDED, True, False),
        (Phase.LOST, True, False),
        (Phase.UNKNOWN, True, True),
        (Phase.UNKNOWN, False, False),
    ],
)
def test_what_may_live_follows_from_the_phase_and_is_asked_where_it_is_unknown(
    table, phase, answer, may_live
):
    table.get(FIRST).phase = phase
    assert table.may_live(FIRST, lambda entry: entry.key == FIRST and answer) is may_live


def test_only_what_is_over_and_not_asked_for_is_dropped_and_only_when_there_are_many(
    table, monkeypatch
):
    for key in (FIRST, SECOND, THIRD):
        table.get(key)
    table.get(FIRST).phase = table.get(SECOND).phase = Phase.ENDED
    assert not table.drop_old([SECOND])
    monkeypatch.setattr(attempt_table, "REMEMBERED_MAX", 1)
    assert table.drop_old([SECOND]) == {FIRST}
    assert [entry.key for entry in table.list_all()] == [SECOND, THIRD]


def test_earlier_attempts_of_a_job():
    assert THIRD.earlier == (FIRST, SECOND)
    assert FIRST.earlier == ()
