"""Divides the work among servers by leases, which a server renews while it runs.

A server that did not renew in time must discard what it has read: other servers may have taken its
jobs.  It continues under a new name.  Every write carries the server's name at the time of the
decision, and the store refuses writes under a name whose lease has expired.
"""

from collections.abc import Callable, Sequence

from trainshed.store.opening import Store


class Leases:
    """The lease of one server, and the scheduler's lease while this server leads."""

    def __init__(
        self, store: Store, server: str, *, ttl_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._server = server
        self._ttl_s = ttl_s
        self._monotonic = monotonic
        self._lapses = 0
        self._until = float("inf")
        self._leading_until = float("-inf")

    @property
    def name(self) -> str:
        """Return the current name of this server in leases and writes."""
        return f"{self._server}~{self._lapses}" if self._lapses else self._server

    @property
    def leading(self) -> bool:
        """Return whether this server holds the scheduler's lease, and it has not expired."""
        return self._monotonic() < self._leading_until

    def once(self) -> Sequence[int]:
        """Renew the leases, try to lead, take over jobs of expired servers; return these jobs."""
        now = self._monotonic()
        if now >= self._until:
            self._lapses += 1
        leads = self._store.join(self.name, self._ttl_s, lead=True)
        self._until = now + self._ttl_s
        self._leading_until = self._until if leads else float("-inf")
        return self._store.take_over(self.name)

    def leave(self) -> None:
        """Release all leases, so that other servers need not wait for them to expire."""
        self._leading_until = float("-inf")
        self._store.leave(self.name)
