"""What may happen to a job: events in, a new state and commands out."""

from trainshed.lifecycle.decide import Decision, IllegalTransition, decide

__all__ = ["Decision", "IllegalTransition", "decide"]
