"""Describes the exit of a replica, with what its limits and the kernel did to it."""

from trainshed.engines.supervise.kernel.limits import ReplicaLimits, Usage
from trainshed.model import exits
from trainshed.model.attempt import ReplicaExit


def describe_end(
    ended: ReplicaExit, usage: Usage, limits: ReplicaLimits, *, is_contained: bool = False
) -> str:
    """Describe the exit of a replica, with its memory limit and kills for lack of memory.

    ``is_contained``: the replica is in a container of a cluster, which may have a limit of its own.
    """
    return exits.describe_exit(
        ended,
        limit_bytes=limits.memory_bytes,
        children_killed=usage.oom_kills,
        machine_oom=ended.oom and not usage.oom_kills and not is_contained,
    )


def warn_of_refused_forks(task_name: str, refused: int) -> str:
    """Return the warning about a replica that reached its limit of processes and threads."""
    times = "once" if refused == 1 else f"{refused} times"
    return (
        f"The kernel refused {task_name} a process or thread {times}: the replica had reached its "
        "limit. If it needs more, raise limits.processes_max."
    )


def ran_out_of_memory(usage: Usage, by_engine: bool, *, was_killed: bool) -> bool:  # noqa: FBT001
    """Return whether the kernel killed a process of the replica for lack of memory.

    ``was_killed``: SIGKILL ended the replica; ``by_engine``: the engine sent that signal.
    """
    if usage.oom_kills:
        return True
    return was_killed and not by_engine and usage.machine_oom_kills > 0
