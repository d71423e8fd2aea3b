"""Entries are written in groups, and none is lost while the database is away."""

import pytest

from trainshed.model.refusals import Refusal
from trainshed.service.upkeep import audit_log
from trainshed.service.upkeep.audit_log import AuditLog, listing
from trainshed.store.base import StoreFault

FIELDS = {
    "caller": "dora", "credential": "c1", "address": "192.0.2.1", "method": "POST /x",
    "resource": "/x", "project": "demo", "status": "OK",
}  # fmt: skip


class Lame:
    """A store that is away until it is back."""

    def __init__(self):
        self.is_away = True
        self.entries = []

    def add_audit(self, entries):
        if self.is_away:
            raise StoreFault("away")
        self.entries += entries


def test_what_is_noted_is_there_when_the_server_has_ended(store):
    log = AuditLog(store, every_s=3600)
    log.start()
    log.add(**FIELDS)
    log.stop()
    [entry] = listing(store, {}).entries
    assert {name: getattr(entry, name) for name in FIELDS} == FIELDS


def test_a_server_that_runs_writes_by_itself(store):
    log = AuditLog(store, every_s=0.01)
    log.start()
    log.add(**FIELDS)
    while not listing(store, {}).entries:
        pass
    log.stop()


def test_while_the_database_is_away_entries_wait_in_their_order():
    store = Lame()
    log = AuditLog(store)
    log.add(
        **FIELDS,
    )
    with pytest.raises(StoreFault):
        log.write()
    log.add(**{**FIELDS, "status": "NOT_FOUND"})
    store.is_away = False
    log.write()
    assert [entry.status for entry in store.entries] == ["OK", "NOT_FOUND"]


def test_what_finds_no_room_is_counted(monkeypatch):
    monkeypatch.setattr(audit_log, "WAITING_MAX", 2)
    store = Lame()
    log = AuditLog(store)
    for _ in range(5):
        log.add(**FIELDS)
    store.is_away = False
    log.write()
    assert len(store.entries) == 3
    assert "3 entries were left out" in store.entries[-1].resource


def test_no_field_grows_without_end(store):
    log = AuditLog(store)
    log.add(**{**FIELDS, "resource": "x" * 10_000})
    log.write()
    assert len(listing(store, {}).entries[0].resource) == audit_log.TEXT_MAX


def test_a_time_that_is_none_is_named(store):
    for since in ("2026-11-21T15:00:00Z", "2026-11-21", "9999-12-31", "0001-01-01T00:00:00Z"):
        assert listing(store, {"since": since}).entries == []
    with pytest.raises(Refusal, match=r"since must be a time.*got 'yesterday'"):
        listing(store, {"since": "yesterday"})
