"""The number of a job's restarts, by cause."""

import enum
from dataclasses import dataclass, replace


class Cause(enum.Enum):
    """The cause of another attempt; each has its own budget."""

    MAINTENANCE = "maintenance"
    """An administrator has taken the node away, with notice."""
    INFRA = "infra"
    """The machine, the supervisor or a device failed, or the attempt hung."""
    USER = "user"
    """The program was ended by a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """Attempts beyond the first, counted by cause."""

    maintenance: int = 0
    infra: int = 0
    user: int = 0

    def of(self, cause: Cause) -> int:
        """Return the number of restarts for a cause."""
        count: int = getattr(self, cause.value)
        return count

    def plus(self, cause: Cause) -> "Restarts":
        """Return the counts with one more for a cause."""
        return replace(self, **{cause.value: self.of(cause) + 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The most restarts of a job for each cause.  No limit if None.

    Restarts that an administrator orders do not use the budgets for faults.
    """

    maintenance: int | None = None
    infra: int | None = 3
    user: int | None = 0

    def of(self, cause: Cause) -> int | None:
        """Return the budget for a cause; no limit if None."""
        budget: int | None = getattr(self, cause.value)
        return budget
