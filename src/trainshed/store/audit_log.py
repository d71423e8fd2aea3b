"""The audit log in the database, limited by number of rows and by age.

Unauthenticated calls have a separate limit of rows, so that they cannot displace other entries.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, select

from trainshed.model.audit_log import AuditEntry
from trainshed.store import codec
from trainshed.store.bulk import add_rows
from trainshed.store.database import Database
from trainshed.store.tables import AUDIT_LOG

_ENTRY: Final = select(*(AUDIT_LOG.c[name] for name in AuditEntry._fields))


class StoredAuditLog:
    """Changes by callers, and refused calls."""

    _db: Database

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries, in this order.  Raises StoreFault, also if the disk is nearly full."""
        if entries:
            self._db.check_room()
            rows = [_row(entry) for entry in entries]
            self._db.write(lambda tx: add_rows(tx, AUDIT_LOG, rows))

    def audit_log(
        self, *, limit: int, project: str | None = None, since: datetime | None = None
    ) -> Sequence[AuditEntry]:
        """Return the newest ``limit`` entries, the oldest first.

        None in ``project`` means all projects; None in ``since`` means any age.
        """
        query = _ENTRY.order_by(AUDIT_LOG.c.seq.desc()).limit(limit)
        if project is not None:
            query = query.where(AUDIT_LOG.c.project == codec.plain(project))
        if since is not None:
            query = query.where(AUDIT_LOG.c.stamp_ns >= codec.to_ns(since))
        return [AuditEntry(*row) for row in reversed(self._db.rows(query))]

    def shorten_audit_log(self, *, rows_max: int, before: datetime) -> int:
        """Delete entries older than ``before``, and the oldest beyond ``rows_max`` rows.

        Unauthenticated calls keep a tenth of ``rows_max``.  Return the number of deleted entries.
        """
        deleted = self._db.put(delete(AUDIT_LOG).where(AUDIT_LOG.c.stamp_ns < codec.to_ns(before)))
        return deleted + self._cut(0, rows_max) + self._cut(1, rows_max // 10)

    def _cut(self, is_stranger: int, rows_max: int) -> int:
        """Delete the oldest entries of one kind of caller; writes only if there are too many."""
        seq, of_kind = AUDIT_LOG.c.seq, AUDIT_LOG.c.is_stranger == is_stranger
        newest = select(seq).where(of_kind).order_by(seq.desc()).offset(rows_max).limit(1)
        deleted_count = 0
        for last in self._db.column(newest):
            deleted_count += self._db.put(delete(AUDIT_LOG).where(of_kind, seq <= last))
        return deleted_count


def _row(entry: AuditEntry) -> dict[str, Any]:
    stamp_ns, *texts = entry
    names = AuditEntry._fields[1:]
    row = {name: codec.plain(text) for name, text in zip(names, texts, strict=True)}
    return {"stamp_ns": stamp_ns, **row, "is_stranger": int(entry.is_of_stranger)}
