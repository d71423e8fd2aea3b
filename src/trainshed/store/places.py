"""Projects and buckets."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, or_, select
from sqlalchemy.dialects.postgresql import insert  # SQLite takes its ON CONFLICT word for word

from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.names import project_number
from trainshed.store.tables import BUCKETS, PROJECTS
from trainshed.store.writer import Transaction

_ADD_PROJECT = insert(PROJECTS).on_conflict_do_nothing()
_ADD_BUCKET = insert(BUCKETS).on_conflict_do_nothing()
_BUCKET = select(BUCKETS).where(BUCKETS.c.name == bindparam("of_name"))
#: A bucket keeps its project for ever, so whoever has seen it need not ask again.
_KNOWN_MAX = 4096


class Places:
    """Projects and buckets."""

    _db: Database
    _known_buckets: dict[str, tuple[str, datetime]]

    def project(self, id_or_number: str) -> tuple[str, str]:
        """(id, number) of a project; made up at first sight, the number from the id alone.

        A number that no project has is its own id: callers may know nothing but a number.
        """
        name = codec.plain(id_or_number)
        one = select(PROJECTS).where(or_(PROJECTS.c.id == name, PROJECTS.c.number == name))
        row = self._db.read(lambda c: c.execute(one.limit(1)).first())
        if row is not None:
            return row.id, row.number
        if name.isdecimal():
            return name, name
        new = {"id": name, "number": project_number(name)}
        self._db.write(lambda tx: tx.connection.execute(_ADD_PROJECT, new) and None)
        return new["id"], new["number"]

    def add_bucket(self, name: str, project: str) -> str:
        """Give a bucket to a project unless it has one; the project it belongs to."""

        def add(tx: Transaction) -> str:
            row = {"name": name, "project": project, "create_ns": tx.now_ns}
            tx.connection.execute(_ADD_BUCKET, row)
            owner = select(BUCKETS.c.project).where(BUCKETS.c.name == name)
            return str(tx.connection.execute(owner).scalar_one())

        return self._db.write(add)

    def bucket(self, name: str) -> tuple[str, datetime] | None:
        """The project of a bucket, and since when."""
        if (known := self._known_buckets.get(name)) is not None:
            return known
        row = self._db.read(lambda c: c.execute(_BUCKET, {"of_name": codec.plain(name)}).first())
        if row is None:
            return None
        if len(self._known_buckets) >= _KNOWN_MAX:
            self._known_buckets.clear()
        found = self._known_buckets[name] = row.project, codec.to_time(row.create_ns)
        return found

    def buckets(self, project: str) -> Sequence[str]:
        """The buckets of a project."""
        names = select(BUCKETS.c.name).where(BUCKETS.c.project == project).order_by(BUCKETS.c.name)
        return self._db.read(lambda c: c.execute(names).scalars().all())
