"""What the controller reports of its own work, for counters."""

from typing import Protocol


class ControllerListener(Protocol):
    """Gets reports in the controller's threads; its methods return at once."""

    def passed(self, seconds: float) -> None:
        """Note a pass over the queue."""

    def commanded(self, command: str, seconds: float) -> None:
        """Note a call of an engine that succeeded: ``launch`` or ``stop``."""

    def suggested(self, seconds: float) -> None:
        """Note a decision of a study that begins new trials."""


class NoControllerListener:
    """Listens to nothing."""

    def passed(self, seconds: float) -> None:
        """Do nothing."""

    def commanded(self, command: str, seconds: float) -> None:
        """Do nothing."""

    def suggested(self, seconds: float) -> None:
        """Do nothing."""
