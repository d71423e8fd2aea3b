"""Runs replicas in images with apptainer: the engine composes the command, the warden completes it.

Containers of apptainer are child processes of the warden, so the warden watches and ends them like
other replicas.  The warden adds the values that depend on its node: the devices, and the folder
that the warden and the program share.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trainshed.engines.apptainer import Bind, client_env, mount, run_words, variables
from trainshed.model import trainer_contract

if TYPE_CHECKING:
    from trainshed.engines.container_runtime import Runtime
    from trainshed.engines.supervise.record.spec import ReplicaSpec
    from trainshed.model.launch_plan import ReplicaPlan

#: The placeholder for the mount of the folder that a warden shares with its program.
PRIVATE: Final = "{ts-private-mount}"


def compose_run(
    runtime: "Runtime",
    replica: "ReplicaPlan",
    *,
    home: str,
    folders: Sequence[str],
    binds: Sequence[tuple[str, str]],
) -> tuple[str, ...]:
    """Compose the command that runs a replica in its image.

    ``folders`` are mounted at the same path; ``binds`` are the binds of the launch plan.
    """
    if replica.container is None:
        raise AssertionError(f"{replica.task_name} has no container")
    mounts = dict.fromkeys(mount(bind) for bind in _list_binds(folders, binds))
    return run_words(
        runtime.program,
        replica.container,
        home=home,
        mounts=(PRIVATE, *mounts),
        has_devices=bool(replica.gpu_count),
    )


def complete(
    replica: "ReplicaSpec", node: Mapping[str, str], local_env: Mapping[str, str], folder: str
) -> "ReplicaSpec":
    """Complete the command and the environment of a replica on its node.

    ``node`` is the environment of the node, ``local_env`` are variables for the program, ``folder``
    is shared with the warden, or with the launcher.  The command gets the variables of the node
    that apptainer needs; the program gets only those of the job and ``local_env``.
    """
    argv = list(replica.argv)
    private, at = mount(Bind(folder, folder)), argv.index(PRIVATE)
    # a launcher shares a folder of the attempt, which is mounted already
    argv[at - 1 : at + 1] = () if private in argv else ("--mount", private)
    mark = replica.env.get(trainer_contract.JOB)
    inside = variables(replica.container, {**replica.env, **local_env})
    outside = {**client_env(node), **({trainer_contract.JOB: mark} if mark else {})}
    return replica._replace(argv=tuple(argv), env={**outside, **inside})


def _list_binds(folders: Sequence[str], binds: Sequence[tuple[str, str]]) -> Iterator[Bind]:
    """Yield the mounts of the job's folders, and of buckets at /gcs and at the paths in AIP_*."""
    for folder in folders:
        yield Bind(folder, folder)
    for source, target in binds:
        yield Bind(source, target)
        yield Bind(source, source)
