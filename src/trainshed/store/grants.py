"""Tokens, and the keys of service accounts that sign their own."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row, Select, delete, insert, select, update

from trainshed.model.access import AccessRole
from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.records import SigningKey, Token
from trainshed.store.rows import of_columns
from trainshed.store.tables import KEYS, TOKENS


class Grants:
    """Tokens and keys."""

    _db: Database

    def add_token(self, token: Token) -> None:
        """Keep a token."""
        row = _row(token) | {"name": codec.plain(token.name), "revoked": int(token.revoked)}
        self._db.write(lambda tx: tx.connection.execute(insert(TOKENS), row) and None)

    def token(self, digest: str) -> Token | None:
        """The token of a digest, revoked or not."""
        one = select(TOKENS).where(TOKENS.c.digest == digest)
        row = self._db.read(lambda c: c.execute(one).one_or_none())
        return _token(row) if row else None

    def tokens(self) -> Sequence[Token]:
        """All tokens, oldest first."""
        every = select(TOKENS).order_by(TOKENS.c.create_ns, TOKENS.c.token_id)
        return [_token(row) for row in self._db.read(lambda c: c.execute(every).all())]

    def revoke_token(self, token_id: str) -> bool:
        """Make a token worthless; False where there is none of this id."""
        revoke = update(TOKENS).where(TOKENS.c.token_id == token_id).values(revoked=1)
        return self._db.write(lambda tx: tx.connection.execute(revoke).rowcount == 1)

    def add_key(self, key: SigningKey) -> None:
        """Register a service account's public key."""
        row = _row(key)
        self._db.write(lambda tx: tx.connection.execute(insert(KEYS), row) and None)

    def keys(self, email: str) -> Sequence[SigningKey]:
        """The keys of a service account."""
        return self._keys(select(KEYS).where(KEYS.c.email == codec.plain(email)))

    def all_keys(self) -> Sequence[SigningKey]:
        """Every registered key."""
        return self._keys(select(KEYS))

    def remove_key(self, key_id: str) -> bool:
        """Forget a key; False where there is none of this id."""
        gone = delete(KEYS).where(KEYS.c.key_id == key_id)
        return self._db.write(lambda tx: tx.connection.execute(gone).rowcount == 1)

    def _keys(self, query: Select[Any]) -> Sequence[SigningKey]:
        ordered = query.order_by(KEYS.c.create_ns, KEYS.c.key_id)
        return [_key(row) for row in self._db.read(lambda c: c.execute(ordered).all())]


def _row(grant: Token | SigningKey) -> dict[str, Any]:
    row = asdict(grant) | {"role": grant.role.name}
    return row | {"create_ns": codec.to_ns(row.pop("create_time"))}


def _token(row: Row[Any]) -> Token:
    return of_columns(Token, row, **_granted(row), revoked=bool(row.revoked))


def _key(row: Row[Any]) -> SigningKey:
    return of_columns(SigningKey, row, **_granted(row))


def _granted(row: Row[Any]) -> dict[str, Any]:
    return {"role": AccessRole[row.role], "create_time": codec.to_time(row.create_ns)}
