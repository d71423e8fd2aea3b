"""Makes true what the store says: places jobs, starts and stops attempts, sees how they end."""

from trainshed.controller.loop import Controller
from trainshed.controller.worker import Pace

__all__ = ["Controller", "Pace"]
