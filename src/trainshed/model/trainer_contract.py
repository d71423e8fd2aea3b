"""The names that a launcher and a training program must agree on, on the launcher's side.

``trainshed_trainer.contract`` has its own list, because neither side may import the other; a test
compares the two.
"""

from typing import Final

#: The number of the attempt, from 1: a program can detect that it was restarted.
ATTEMPT: Final = "TRAINSHED_ATTEMPT"
#: ``UID/ATTEMPT``: in the environment of every process of an attempt, also of forked ones, so that
#: leftovers are identified with certainty.
JOB: Final = "TRAINSHED_JOB"
#: The replica's name in its dialect.
TASK: Final = "TRAINSHED_TASK"
#: A file that appears when the replica is about to be stopped: JSON with ``reason``, ``message``
#: and ``until`` (seconds since 1970; the replica is killed then).
NOTICE_FILE: Final = "TRAINSHED_NOTICE_FILE"
#: A file whose modification time is the replica's heartbeat; its text may be JSON with a ``step``.
PROGRESS_FILE: Final = "TRAINSHED_PROGRESS_FILE"
#: The file for the times of the replica's steps: JSON (``model.step_times``).
STEPS_FILE: Final = "TRAINSHED_STEPS_FILE"
#: With the value ``hooks``, hooks in the framework measure the steps; programs need no change.
STEPS: Final = "TRAINSHED_STEPS"
#: The folder that holds a folder for every bucket of the job's project, as the replica sees it.
BUCKETS: Final = "TRAINSHED_BUCKETS"

#: ``HOST:PORT,...``: every process of the job's reducers, in their order.
REDUCERS: Final = "TRAINSHED_REDUCERS"
#: The secret by which a reducer and a worker prove to each other that they have the same job.
REDUCTION_TOKEN: Final = "TRAINSHED_REDUCTION_TOKEN"  # noqa: S105  # a name, no secret
#: A private file with that secret, used instead of the variable.
REDUCTION_TOKEN_FILE: Final = "TRAINSHED_REDUCTION_TOKEN_FILE"  # noqa: S105  # as above
#: The file in which rank 0 writes the achieved rates: JSON.
REDUCTION_REPORT: Final = "TRAINSHED_REDUCTION_REPORT"
#: The address on which a worker's own reducer listens, if there are few reducers.
REDUCTION_HOST: Final = "TRAINSHED_REDUCTION_HOST"
#: The tensors that go to the reducers: ``measured`` or ``always``.
REDUCTION_ROUTE: Final = "TRAINSHED_REDUCTION_ROUTE"
#: Whether the ranks of one host sum among themselves first: ``1``, ``0`` or ``auto``.
REDUCTION_LOCAL: Final = "TRAINSHED_REDUCTION_LOCAL"
#: The name of a rank's host, if it is not the system's.
REDUCTION_HOSTNAME: Final = "TRAINSHED_REDUCTION_HOSTNAME"
#: Bytes of pinned memory for a device's tensors on their way to reducers and back.
REDUCTION_MAX_STAGING: Final = "TRAINSHED_REDUCTION_MAX_STAGING"
#: The backend of ``init_process_group`` for groups that name none: ``reduction``.
TORCH_BACKEND: Final = "TRAINSHED_TORCH_BACKEND"
