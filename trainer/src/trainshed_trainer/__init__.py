"""What a training program can ask about its replica, in the program's own process.

Standard library only and Python 3.8 or later: it is imported by other people's code, in other
people's environments.
"""

from trainshed_trainer.checkpoint import latest_checkpoint, save_atomically
from trainshed_trainer.replica import ReplicaEnv

__all__ = ["ReplicaEnv", "latest_checkpoint", "save_atomically"]
