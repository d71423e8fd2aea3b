"""Reconciles the store with the engines: places jobs, starts and stops attempts, records ends."""

from trainshed.controller.loop import Controller
from trainshed.controller.worker import Pace

__all__ = ["Controller", "Pace"]
