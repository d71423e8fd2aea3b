"""Which server does what: leases, renewed while the server lives.

A server that could not renew in time must not go on as if nothing had happened: others may have
taken its jobs, and what it has thought is old.  So it goes on under a new name.  Every write names
the server it was thought under, and the store refuses those of a name whose lease has ended.
"""

from collections.abc import Callable, Sequence

from trainshed.store.opening import Store


class Leases:
    """The lease of one server, and that of the scheduler while this server leads."""

    def __init__(
        self, store: Store, server: str, *, ttl_s: float, monotonic: Callable[[], float]
    ) -> None:
        """Nothing is taken before the first ``once``."""
        self._store = store
        self._server = server
        self._ttl_s = ttl_s
        self._monotonic = monotonic
        self._lapses = 0
        self._until = float("inf")
        self._leading_until = float("-inf")

    @property
    def name(self) -> str:
        """The name that this server's leases and writes carry now."""
        return f"{self._server}~{self._lapses}" if self._lapses else self._server

    @property
    def leading(self) -> bool:
        """Whether this server schedules, and surely still does."""
        return self._monotonic() < self._leading_until

    def once(self) -> Sequence[int]:
        """Renew what is held, try to lead, take over what the dead have left: the uids."""
        now = self._monotonic()
        if now >= self._until:
            self._lapses += 1
        self._store.join(self.name, self._ttl_s)
        self._until = now + self._ttl_s
        leads = self._store.lead(self.name, self._ttl_s)
        self._leading_until = self._until if leads else float("-inf")
        return self._store.take_over(self.name)

    def leave(self) -> None:
        """Give everything back, so that others need not wait."""
        self._leading_until = float("-inf")
        self._store.leave(self.name)
