"""Decides the states of a job: from events to a new state and commands."""

from trainshed.lifecycle.decide import Decision, IllegalTransition, decide

__all__ = ["Decision", "IllegalTransition", "decide"]
