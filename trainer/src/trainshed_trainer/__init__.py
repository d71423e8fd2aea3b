"""The functions that a training program calls to learn about its replica and to report progress.

It needs only Python 3.8 or later, because users import it in environments of their own.  Outside of
Trainshed every function works: there is one primary, SIGTERM is the only notice, and progress is
not written.
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
