"""Stores tokens, keys of service accounts, and the projects that own buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import Row, Select, bindparam, delete, func, or_, select, update

from trainshed.model.access import AccessRole
from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.names import project_number
from trainshed.store.records.access import SigningKey, Token
from trainshed.store.rows import of_columns
from trainshed.store.tables import BUCKETS, KEYS, OWNERS, PROJECTS, TOKENS
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

T = TypeVar("T")


_TOKEN_BY_ID = select(TOKENS).where(TOKENS.c.token_id == bindparam("of_id"))


class Grants:
    _db: Database

    def add_token(self, token: Token) -> None:
        self._db.put(insert(TOKENS), **_token_row(token))

    def add_bucket_token(self, token: Token, *, most: int) -> bool:
        """Store a token for one bucket; False if its parent has ``most`` unexpired tokens."""

        def add(tx: Transaction) -> bool:
            now_ns = codec.to_ns(token.create_time)
            live = (TOKENS.c.parent == token.parent) & (TOKENS.c.expire_ns > now_ns)
            count = select(func.count()).select_from(TOKENS).where(live, TOKENS.c.revoked == 0)
            if tx.connection.execute(count).scalar_one() >= most:
                return False
            tx.connection.execute(insert(TOKENS), _token_row(token))
            return True

        return self._db.write(add)

    def extend_token(
        self, token_id: str, parent: str, now: datetime, until: datetime
    ) -> Token | None:
        """Extend an unexpired token for one bucket; None if ``parent`` has no such token."""
        is_token = (TOKENS.c.token_id == token_id) & (TOKENS.c.parent == parent)
        is_valid = (TOKENS.c.revoked == 0) & (TOKENS.c.expire_ns > codec.to_ns(now))
        self._db.put(update(TOKENS).where(is_token, is_valid), expire_ns=codec.to_ns(until))
        row = self._db.row(select(TOKENS).where(is_token, is_valid))
        return token_of(row) if row else None

    def token(self, digest: str) -> Token | None:
        """Return the token of a digest, also a revoked one; None if there is none."""
        row = self._db.row(select(TOKENS).where(TOKENS.c.digest == digest))
        return token_of(row) if row else None

    def token_by_id(self, token_id: str) -> Token | None:
        """Return a token, also a revoked one; None if no token has this id."""
        row = self._db.row(_TOKEN_BY_ID, of_id=token_id)
        return token_of(row) if row else None

    def tokens(self) -> Sequence[Token]:
        """Return all tokens except those for one bucket, the oldest first."""
        query = select(TOKENS).where(TOKENS.c.bucket.is_(None))
        ordered = query.order_by(TOKENS.c.create_ns, TOKENS.c.token_id)
        return [token_of(row) for row in self._db.rows(ordered)]

    def revoke_token(self, token_id: str) -> bool:
        """Revoke a token and the tokens made with it; False if no token has this id."""
        revoke = update(TOKENS).values(revoked=1)
        is_revoked = or_(TOKENS.c.token_id == token_id, TOKENS.c.parent == token_id)
        return self._db.put(revoke.where(is_revoked)) > 0

    def note_use(self, times: Mapping[str, datetime]) -> None:
        """Store when tokens were last used; ``times`` is by token id."""
        used = update(TOKENS).where(TOKENS.c.token_id == bindparam("of_id"))
        rows = [{"of_id": name, "used_ns": codec.to_ns(time)} for name, time in times.items()]
        if rows:
            self._db.write(lambda tx: tx.connection.execute(used, rows))

    def forget_ended_tokens(self, before: datetime) -> int:
        """Delete tokens for one bucket that expired before a time; return their number."""
        ended = (TOKENS.c.bucket.is_not(None)) & (TOKENS.c.expire_ns < codec.to_ns(before))
        return self._db.put(delete(TOKENS).where(ended))

    def add_key(self, key: SigningKey) -> None:
        """Register a service account's public key."""
        self._db.put(insert(KEYS), **_row(key))

    def keys(self, email: str) -> Sequence[SigningKey]:
        """Return the public keys of a service account, the oldest first."""
        return self._keys(select(KEYS).where(KEYS.c.email == codec.plain(email)))

    def all_keys(self) -> Sequence[SigningKey]:
        return self._keys(select(KEYS))

    def remove_key(self, key_id: str) -> bool:
        """Delete a key and the tokens made with it; False if there is no such key."""

        def remove(tx: Transaction) -> bool:
            tx.connection.execute(delete(TOKENS).where(TOKENS.c.parent == key_id))
            return tx.connection.execute(delete(KEYS).where(KEYS.c.key_id == key_id)).rowcount == 1

        return self._db.write(remove)

    def _keys(self, query: Select[Any]) -> Sequence[SigningKey]:
        ordered = query.order_by(KEYS.c.create_ns, KEYS.c.key_id)
        rows = self._db.rows(ordered)
        return [of_columns(SigningKey, row, **_grant_columns(row)) for row in rows]


def _row(grant: Token | SigningKey) -> dict[str, Any]:
    row = asdict(grant) | {"role": grant.role.name}
    return row | {"create_ns": codec.to_ns(row.pop("create_time"))}


def _token_row(token: Token) -> dict[str, Any]:
    row = _row(token) | {"name": codec.plain(token.name), "revoked": int(token.revoked)}
    ends, used = row.pop("expire_time"), row.pop("last_use_time")
    return row | {"expire_ns": ends and codec.to_ns(ends), "used_ns": used and codec.to_ns(used)}


def token_of(row: Row[Any]) -> Token:
    """Return the token of a row with all columns of ``tokens``."""
    return of_columns(
        Token,
        row,
        **_grant_columns(row),
        revoked=bool(row.revoked),
        expire_time=codec.to_time_or_none(row.expire_ns),
        last_use_time=codec.to_time_or_none(row.used_ns),
    )


def _grant_columns(row: Row[Any]) -> dict[str, Any]:
    return {"role": AccessRole[row.role], "create_time": codec.to_time(row.create_ns)}


_ADD_PROJECT = insert(PROJECTS).on_conflict_do_nothing()
_ADD_BUCKET = insert(BUCKETS).on_conflict_do_nothing()
_BUCKET = select(BUCKETS).where(BUCKETS.c.name == bindparam("of_name"))
_BUCKETS = (
    select(BUCKETS.c.name)
    .where(BUCKETS.c.project == bindparam("of_project"))
    .order_by(BUCKETS.c.name)
)
_OWNER = select(OWNERS.c.number).where(OWNERS.c.project == bindparam("of_project"))
_PROJECT = (
    select(PROJECTS)
    .where(or_(PROJECTS.c.id == bindparam("of_name"), PROJECTS.c.number == bindparam("of_name")))
    .limit(1)
)
#: Cached entries: a bucket never changes its project, and a project never its numbers.
REMEMBERED_MAX: Final = 4096


class Places:
    _db: Database
    _known_buckets: dict[str, tuple[str, datetime]]
    _known_projects: dict[str, tuple[str, str]]
    _known_owners: dict[str, int]

    def project(self, id_or_number: str) -> tuple[str, str]:
        """Return (id, number) of a project; stores a new project if the id is unknown.

        A number that no project has is returned as id and number, and is not stored.
        """
        if (entry := self._known_projects.get(id_or_number)) is not None:
            return entry
        name = codec.plain(id_or_number)
        row = self._db.read(lambda c: c.execute(_PROJECT, {"of_name": name}).first())
        if row is not None:
            entry = self._known_projects[id_or_number] = (row.id, row.number)
            return entry
        if name.isdecimal():
            return name, name
        new = {"id": name, "number": project_number(name)}
        self._db.put(_ADD_PROJECT, **new)
        return new["id"], new["number"]

    def owner_number(self, project: str) -> int:
        """Return the number of a project, from 0; the first call for a project assigns it.

        If two servers choose the same number, the later write fails and this chooses again.
        """
        if (number := self._known_owners.get(project)) is not None:
            return number
        while True:
            row = self._db.row(_OWNER, of_project=project)
            if row is not None:
                number = self._known_owners[project] = int(row.number)
                return number
            next_one = select(func.coalesce(func.max(OWNERS.c.number) + 1, 0)).scalar_subquery()
            add = insert(OWNERS).values(project=project, number=next_one)
            self._db.put(add.on_conflict_do_nothing())

    def next_owner_number(self, project: str) -> int:
        """Return a project's number, or the number that it would be assigned; writes nothing."""
        row = self._db.row(_OWNER, of_project=project)
        if row is not None:
            return int(row.number)
        next_one = select(func.coalesce(func.max(OWNERS.c.number) + 1, 0))
        return int(self._db.read(lambda c: c.execute(next_one).scalar_one()))

    def add_bucket(self, name: str, project: str) -> str:
        """Make a project the owner of a bucket that has none; return the bucket's project."""

        def add(tx: Transaction) -> str:
            row = {"name": name, "project": project, "create_ns": tx.now_ns}
            tx.connection.execute(_ADD_BUCKET, row)
            owner = select(BUCKETS.c.project).where(BUCKETS.c.name == name)
            return str(tx.connection.execute(owner).scalar_one())

        return self._db.write(add)

    def bucket(self, name: str) -> tuple[str, datetime] | None:
        """Return a bucket's project and since when it has it; None if the bucket has no project."""
        if (entry := self._known_buckets.get(name)) is not None:
            return entry
        row = self._db.row(_BUCKET, of_name=codec.plain(name))
        if row is None:
            return None
        entry = self._known_buckets[name] = (row.project, codec.to_time(row.create_ns))
        return entry

    def buckets(self, project: str) -> Sequence[str]:
        """Return the names of a project's buckets, sorted."""
        return self._db.column(_BUCKETS, of_project=project)
