"""Replicas in their own images: the command is composed for the plan, and completed on the node.

Apptainer's containers are processes of the warden's own, so it ends and watches them as any others.
What only the node knows is added there: its devices, and the folder that warden and program share.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trainshed.engines.apptainer import Bind, client_env, mount, run_words, variables
from trainshed.model import trainer_contract

if TYPE_CHECKING:
    from trainshed.engines.container_runtime import Runtime
    from trainshed.engines.supervise.record.spec import ReplicaSpec
    from trainshed.model.launch_plan import ReplicaPlan

#: Stands in a command for the mount of the folder that a warden shares with its program.
PRIVATE: Final = "{ts-private-mount}"


def command_of(
    runtime: "Runtime",
    replica: "ReplicaPlan",
    *,
    home: str,
    folders: Sequence[str],
    binds: Sequence[tuple[str, str]],
) -> tuple[str, ...]:
    """The command of a replica that has an image.

    ``folders`` are found in it at the same place; ``binds`` are those of a launch plan.
    """
    if replica.container is None:
        raise AssertionError(f"{replica.task_name} has no container")
    mounts = dict.fromkeys(mount(bind) for bind in _binds(folders, binds))
    return run_words(
        runtime.program,
        replica.container,
        home=home,
        mounts=(PRIVATE, *mounts),
        has_devices=bool(replica.gpu_count),
    )


def completed(
    replica: "ReplicaSpec", node: Mapping[str, str], local_env: Mapping[str, str], folder: str
) -> "ReplicaSpec":
    """The same with what its node knows: ``local_env`` are variables, ``folder`` is the warden's.

    The command has what a client of containers needs of the node's environment; the program has
    the job's variables alone.
    """
    argv = list(replica.argv)
    argv[argv.index(PRIVATE)] = mount(Bind(folder, folder))
    mark = replica.env.get(trainer_contract.JOB)
    inside = variables(replica.container, {**replica.env, **local_env})
    outside = {**client_env(node), **({trainer_contract.JOB: mark} if mark else {})}
    return replica._replace(argv=tuple(argv), env={**outside, **inside})


def _binds(folders: Sequence[str], binds: Sequence[tuple[str, str]]) -> Iterator[Bind]:
    """The job's folders at their places, and buckets at /gcs and where AIP_* name them."""
    for place in folders:
        yield Bind(place, place)
    for here, there in binds:
        yield Bind(here, there)
        yield Bind(here, here)
