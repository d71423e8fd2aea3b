"""How a replica that ended so is described by its supervisor."""

from trainshed.engines.supervise.replicas import end_words, ran_out_of_memory
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
    return end_words(ended, usage, limits)
