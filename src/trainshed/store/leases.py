"""Who is alive, and who leads: rows that run out unless they are renewed."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, bindparam, delete, or_, select
from sqlalchemy.dialects.postgresql import insert  # SQLite takes its ON CONFLICT word for word

from trainshed.store.database import Database
from trainshed.store.steady_clock import note
from trainshed.store.tables import LEASES
from trainshed.store.writer import Transaction

_SCHEDULER = "scheduler"
_SERVER = "server:"
_NS_PER_S = 1_000_000_000

_new = insert(LEASES)
#: Take a lease that is one's own, or that has run out.
_TAKE = _new.on_conflict_do_update(
    index_elements=["name"],
    set_={"holder": _new.excluded.holder, "until_ns": _new.excluded.until_ns},
    where=or_(
        LEASES.c.holder == _new.excluded.holder,
        LEASES.c.until_ns <= bindparam("now_ns", type_=BigInteger),
    ),
).returning(LEASES.c.name)
_VALID = select(LEASES.c.name).where(
    LEASES.c.name == bindparam("of_name"), LEASES.c.until_ns > bindparam("now_ns", type_=BigInteger)
)
#: The names of all servers that live.
ALIVE = select(LEASES.c.holder).where(
    LEASES.c.name != _SCHEDULER, LEASES.c.until_ns > bindparam("now_ns", type_=BigInteger)
)

_SERVERS = ALIVE.order_by(LEASES.c.holder)


def has_lease(tx: Transaction, server: str) -> bool:
    """Whether a server's lease is valid now."""
    known = {"of_name": _SERVER + server, "now_ns": tx.now_ns}
    return tx.connection.execute(_VALID, known).first() is not None


class Leases:
    """Servers' leases and the scheduler's."""

    _db: Database

    def join(self, server: str, ttl_s: float) -> None:
        """Take or renew a server's lease."""

        def join(tx: Transaction) -> None:
            _take(tx, _SERVER + server, server, ttl_s)
            note(tx.connection, self._db.clock)

        self._db.write(join)

    def servers(self) -> Sequence[str]:
        """The servers whose lease is valid, in the order of their names."""
        known = {"now_ns": self._db.clock()}
        return self._db.read(lambda c: c.execute(_SERVERS, known).scalars().all())

    def lead(self, server: str, ttl_s: float) -> bool:
        """Take or renew the one scheduler's lease; False while another server holds it."""
        return self._db.write(lambda tx: _take(tx, _SCHEDULER, server, ttl_s))

    def leave(self, server: str) -> None:
        """Give the lease back; what the server owned is free at once."""
        gone = delete(LEASES).where(LEASES.c.holder == server)
        self._db.write(lambda tx: tx.connection.execute(gone) and None)


def _take(tx: Transaction, name: str, holder: str, ttl_s: float) -> bool:
    until_ns = tx.now_ns + int(ttl_s * _NS_PER_S)
    row = {"name": name, "holder": holder, "until_ns": until_ns, "now_ns": tx.now_ns}
    return tx.connection.execute(_TAKE, row).first() is not None
