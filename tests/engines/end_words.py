"""How a replica that ended so is described by its supervisor."""

from trainshed.engines.supervise.end_words import describe_end as describe_exit
from trainshed.engines.supervise.end_words import ran_out_of_memory
from trainshed.model.attempt import ReplicaExit
from trainshed.model.roles import Role


def describe_end(status, usage, limits):
    ended = ReplicaExit(
        role=Role.PRIMARY,
        index=0,
        task_name="",
        exit_code=None if status < 0 else status,
        signal=-status if status < 0 else None,
        seconds=0.0,
        stopped_by_us=False,
        oom=ran_out_of_memory(usage, False, was_killed=status == -9),
        peak_memory_bytes=usage.peak_bytes,
    )
    return describe_exit(ended, usage, limits)
