"""What a training program can ask about its replica, and what it can tell, in its own process.

Standard library only and Python 3.8 or later: it is imported by other people's code, in other
people's environments.  Outside of Trainshed everything here works and means the obvious: one
primary, no notice but SIGTERM, nobody who wants to hear of progress.
"""

from trainshed_trainer.checkpoint import latest_checkpoint, local_path, save_atomically
from trainshed_trainer.fence import NewerAttemptError
from trainshed_trainer.metrics import report_metric
from trainshed_trainer.notices import Notice, notice, on_notice
from trainshed_trainer.replica import ReplicaEnv
from trainshed_trainer.saver import CheckpointSaver, checkpoint_saver
from trainshed_trainer.vitals import heartbeat, progress

__all__ = [
    "CheckpointSaver",
    "NewerAttemptError",
    "Notice",
    "ReplicaEnv",
    "checkpoint_saver",
    "heartbeat",
    "latest_checkpoint",
    "local_path",
    "notice",
    "on_notice",
    "progress",
    "report_metric",
    "save_atomically",
]
