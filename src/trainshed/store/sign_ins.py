"""Stores which browsers are signed in with which token, and the codes that begin a sign-in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Table, bindparam, delete, select, update

from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.grants import token_of
from trainshed.store.records.access import SignIn, SignInCode, Token
from trainshed.store.rows import of_columns
from trainshed.store.tables import SIGN_IN_CODES, SIGN_INS, TOKENS
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

#: One query for both: each call of a browser reads them.
_SIGN_IN = (
    select(
        TOKENS,
        SIGN_INS.c.address,
        SIGN_INS.c.page_digest,
        SIGN_INS.c.create_ns.label("begin_ns"),
        SIGN_INS.c.used_ns.label("last_ns"),
    )
    .join_from(SIGN_INS, TOKENS, TOKENS.c.token_id == SIGN_INS.c.credential)
    .where(SIGN_INS.c.digest == bindparam("of_digest"))
)


class StoredSignIns:
    _db: Database

    def add_sign_in(self, sign_in: SignIn, *, most: int) -> None:
        """Store a sign-in, and delete the oldest ones beyond ``most`` of its token."""
        row = {
            "digest": sign_in.digest,
            "page_digest": sign_in.page_digest,
            "credential": sign_in.credential,
            "address": codec.plain(sign_in.address),
            "create_ns": codec.to_ns(sign_in.create_time),
            "used_ns": codec.to_ns(sign_in.last_use_time),
        }
        self._add(SIGN_INS, row, most)

    def sign_in(self, digest: str) -> tuple[SignIn, Token] | None:
        """Return the sign-in of a digest and its token, also a revoked one; None without either."""
        row = self._db.row(_SIGN_IN, of_digest=digest)
        return (_sign_in(row, digest), token_of(row)) if row else None

    def note_sign_in_use(self, times: Mapping[str, datetime]) -> None:
        """Store when sign-ins were last used; ``times`` is by digest."""
        used = update(SIGN_INS).where(SIGN_INS.c.digest == bindparam("of_digest"))
        later = used.where(SIGN_INS.c.used_ns < bindparam("use_ns")).values(
            used_ns=bindparam("use_ns")
        )
        rows = [{"of_digest": key, "use_ns": codec.to_ns(time)} for key, time in times.items()]
        if rows:
            self._db.write(lambda tx: tx.connection.execute(later, rows))

    def remove_sign_in(self, digest: str) -> None:
        """Delete a sign-in if there is one."""
        self._db.put(delete(SIGN_INS).where(SIGN_INS.c.digest == digest))

    def remove_sign_ins(self, credential: str) -> int:
        """Delete all sign-ins of a token; return their number."""
        return self._db.put(delete(SIGN_INS).where(SIGN_INS.c.credential == credential))

    def forget_sign_ins(self, *, begun_before: datetime, used_before: datetime) -> int:
        """Delete sign-ins that began or were last used before these times; return their number."""
        is_old = SIGN_INS.c.create_ns < codec.to_ns(begun_before)
        is_idle = SIGN_INS.c.used_ns < codec.to_ns(used_before)
        return self._db.put(delete(SIGN_INS).where(is_old | is_idle))

    def add_sign_in_code(self, code: SignInCode, *, most: int) -> None:
        """Store a code, and delete the oldest ones beyond ``most`` of its token."""
        row = {"digest": code.digest, "credential": code.credential}
        self._add(SIGN_IN_CODES, row | {"create_ns": codec.to_ns(code.create_time)}, most)

    def take_sign_in_code(self, digest: str) -> SignInCode | None:
        """Delete and return the code of a digest; None if there is none."""
        take = (
            delete(SIGN_IN_CODES)
            .where(SIGN_IN_CODES.c.digest == digest)
            .returning(*SIGN_IN_CODES.c)
        )
        row = self._db.write(lambda tx: tx.connection.execute(take).one_or_none())
        if row is None:
            return None
        return of_columns(SignInCode, row, create_time=codec.to_time(row.create_ns))

    def forget_sign_in_codes(self, before: datetime) -> int:
        """Delete codes that were made before a time; return their number."""
        made_ns = SIGN_IN_CODES.c.create_ns
        return self._db.put(delete(SIGN_IN_CODES).where(made_ns < codec.to_ns(before)))

    def _add(self, table: Table, row: Mapping[str, Any], most: int) -> None:
        """Insert a row, and delete the oldest ones beyond ``most`` of its token."""
        of_token = table.c.credential == row["credential"]
        newest = select(table.c.digest).where(of_token).order_by(table.c.create_ns.desc())
        surplus = newest.offset(most - 1).limit(most)

        def add(tx: Transaction) -> None:
            digests = tx.connection.execute(surplus).scalars().all()
            tx.connection.execute(delete(table).where(table.c.digest.in_(digests)))
            tx.connection.execute(insert(table), dict(row))

        self._db.write(add)


def _sign_in(row: Row[Any], digest: str) -> SignIn:
    return SignIn(
        digest=digest,
        page_digest=row.page_digest,
        credential=row.token_id,
        address=row.address,
        create_time=codec.to_time(row.begin_ns),
        last_use_time=codec.to_time(row.last_ns),
    )
