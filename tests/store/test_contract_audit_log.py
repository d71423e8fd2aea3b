"""The store's contract: the audit log is read as it was written, and bounded."""

from datetime import UTC, datetime, timedelta

from trainshed.model.audit_log import AuditEntry
from trainshed.store.opening import Store

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)


def entry(number: int, **fields: str) -> AuditEntry:
    default = AuditEntry(
        stamp_ns=int((BEGIN + timedelta(minutes=number)).timestamp()) * 10**9,
        caller="dora",
        credential="c0ffee",
        address="192.0.2.1",
        method="POST /v1/projects/{project}/jobs",
        resource=f"/v1/projects/demo/jobs/{number}",
        project="demo",
        status="OK",
    )
    return default._replace(**fields)


class TestAuditLog:
    """What is asked of it."""

    def test_the_newest_entries_are_told_in_their_order(self, store: Store) -> None:
        entries = [entry(number) for number in range(5)]
        store.add_audit(entries[:3])
        store.add_audit(entries[3:])
        store.add_audit([])
        assert store.audit_log(limit=9) == entries
        assert store.audit_log(limit=2) == entries[3:]

    def test_one_project_or_what_is_newer_can_be_asked_for(self, store: Store) -> None:
        store.add_audit([entry(1), entry(2, project="other"), entry(3)])
        assert store.audit_log(limit=9, project="other") == [entry(2, project="other")]
        since = BEGIN + timedelta(minutes=3)
        assert store.audit_log(limit=9, since=since) == [entry(3)]

    def test_whatever_a_caller_writes_can_be_kept(self, store: Store) -> None:
        store.add_audit([entry(1, resource="/a\x00\ud800'); DROP TABLE audit_log")])
        [row] = store.audit_log(limit=9)
        assert row.resource == "/a\ufffd\ufffd'); DROP TABLE audit_log"

    def test_the_oldest_go_and_strangers_push_out_nobody(self, store: Store) -> None:
        users = [entry(number) for number in range(20)]
        strangers = [entry(number, caller="", credential="") for number in range(20, 60)]
        store.add_audit([*users, *strangers])
        store.shorten_audit_log(rows_max=10, before=BEGIN)
        assert store.audit_log(limit=99) == [*users[10:], strangers[-1]]

    def test_what_is_too_old_goes(self, store: Store) -> None:
        store.add_audit([entry(number) for number in range(4)])
        before = BEGIN + timedelta(minutes=2)
        assert store.shorten_audit_log(rows_max=100, before=before) == 2
        assert store.audit_log(limit=9) == [entry(2), entry(3)]
