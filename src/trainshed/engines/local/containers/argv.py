"""What one replica's container is to be, and the command line that each runtime takes for it.

Docker's and podman's ``run`` stays in the foreground: it passes the container's output and signals
on and ends with its exit status.  What the job chose comes behind ``--`` or behind an equals sign,
so that an image named ``--privileged`` is an image that does not exist.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from trainshed.engines.apptainer import Bind, mount, run_words
from trainshed.engines.container_runtime import PODMAN, Runtime
from trainshed.model.launch_plan import ContainerPlan

_MIB: Final = 1 << 20
SHM_BYTES_MIN: Final = 64 * _MIB
#: Of the memory that a replica has: what Linux gives every machine's own /dev/shm.
_SHM_SHARE: Final = 2


#: Threads count too: a large machine's data loaders have thousands, a fork bomb has more.
PROCESSES_MAX: Final = 32_768


class ContainerSpec(NamedTuple):
    """All that a runtime is given for one container."""

    name: str
    mark: str
    """UID/ATTEMPT: what leftovers are found by."""
    plan: ContainerPlan
    env: Mapping[str, str]
    shm_bytes: int
    home: str
    """A folder of the replica's user, also inside."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name)."""
    binds: tuple[Bind, ...] = ()
    devices: tuple[str, ...] = ()
    """UUIDs of its GPUs."""
    memory_bytes: int | None = None
    cpus: float | None = None
    processes_max: int = PROCESSES_MAX
    has_peers: bool = False
    """Whether other replicas of its job must reach it."""


def shm_bytes(memory_bytes: int | None, machine_bytes: int, replicas: int) -> int:
    """How large /dev/shm is: half of the memory that is the replica's.

    Runtimes give 64 MiB, on which data loaders with several workers die of SIGBUS.  It is a bound
    and not a reservation, so replicas without a limit share the machine's memory evenly.
    """
    share = machine_bytes // max(replicas, 1)
    return max(SHM_BYTES_MIN, min(memory_bytes or share, share) // _SHM_SHARE)


#: How containers of ours differ from those of others, and of which attempt they are.
LABEL: Final = "trainshed.job"
_ROOT: Final = 0
#: Where programs may write although their image is closed; it counts as memory.
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - the container's own


def docker_run(
    runtime: Runtime, spec: ContainerSpec, variables: tuple[str, ...], *, euid: int | None = None
) -> tuple[str, ...]:
    """The words of ``run``; ``variables`` are the flags that give the container its variables."""
    return (
        *(runtime.program, "run", "--rm", "--pull", "missing"),
        *("--name", spec.name, "--label", f"{LABEL}={spec.mark}"),
        *_surroundings(runtime, spec),
        *_walls(runtime, spec),
        *_user(runtime, os.geteuid() if euid is None else euid),
        *_devices(runtime, spec),
        *_limits(spec),
        *variables,
        *docker_started(spec.plan),
    )


def docker_started(plan: ContainerPlan) -> Iterator[str]:
    """Docker's table: a command replaces ENTRYPOINT and drops CMD, args replace CMD alone."""
    if plan.command:
        yield f"--entrypoint={plan.command[0]}"
    yield "--"
    yield plan.image
    if plan.command:
        yield from plan.command[1:]
    yield from plan.args or ()


def remove_argv(runtime: Runtime, container: str) -> tuple[str, ...]:
    """Kill and remove a container that its client has left behind."""
    return (runtime.program, "rm", "--force", container)


#: Asks until the runtime says that there is nothing left.  What it says of a container that it is
#: removing by itself at this moment helps nobody.
_EMPTYING: Final = """\
until ids=$("$1" ps --all --quiet --no-trunc --filter "$2" 2> /dev/null) && [ -z "$ids" ]; do
  { [ -n "$ids" ] && "$1" rm --force $ids > /dev/null 2>&1; } || sleep 0.2
done"""


def empty_argv(runtime: Runtime, mark: str) -> tuple[str, ...]:
    """Kill and remove every container of an attempt; ends when the runtime knows of none."""
    return ("/bin/sh", "-c", _EMPTYING, "sh", runtime.program, f"label={LABEL}={mark}")


def list_argv(runtime: Runtime, mark: str) -> tuple[str, ...]:
    """Write the ids of the containers of an attempt, whether they run or not."""
    label = f"label={LABEL}={mark}"
    return (runtime.program, "ps", "--all", "--quiet", "--no-trunc", "--filter", label)


def running_argv(runtime: Runtime) -> tuple[str, ...]:
    """Write the ids of the containers of all attempts that run."""
    return (runtime.program, "ps", "--quiet", "--no-trunc", "--filter", f"label={LABEL}")


def inspect_argv(runtime: Runtime, containers: Iterable[str]) -> tuple[str, ...]:
    """Write a line for each: the pid of its first process, and UID/ATTEMPT."""
    line = f'{{{{.State.Pid}}}} {{{{index .Config.Labels "{LABEL}"}}}}'
    return (runtime.program, "inspect", "--format", line, *containers)


def _surroundings(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    """Replicas share the host's network, as processes do: ports in TF_CONFIG mean the same."""
    if runtime.has_init:
        yield "--init"  # a program that is process 1 does not hear SIGTERM
    if spec.has_peers or not runtime.has_walls:
        yield from ("--network", "host")
    if runtime.name == PODMAN:  # the server's proxy may have a password; jobs get it by pass_env
        yield "--http-proxy=false"
    yield from ("--log-driver", "none")
    yield from ("--shm-size", str(spec.shm_bytes))
    yield from ("--security-opt", "label=disable")  # SELinux would keep buckets from being read
    for address, name in spec.hosts:
        yield from ("--add-host", f"{name}:{address}")
    yield from _mounts(spec)


def _walls(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    """What Kubernetes' Pod Security calls ``restricted``, and files that stay as they are.

    Without a word on the network a container has one of its own: the server's loopback is not in
    it, nor are the ports of other jobs.
    """
    if runtime.has_walls:
        yield from ("--cap-drop", "ALL", "--pids-limit", str(spec.processes_max))
    elif runtime.name == PODMAN:
        yield from ("--pids-limit", "-1")  # its 2048 are few for data loaders on a large machine
    if runtime.has_walls or runtime.user is not None:
        yield from ("--security-opt", "no-new-privileges")
    if runtime.is_read_only:
        yield "--read-only"
        for place in _TEMPORARY:
            yield from ("--tmpfs", f"{place}:rw,exec,nosuid,nodev,mode=1777")


def _user(runtime: Runtime, euid: int) -> Iterator[str]:
    if runtime.user is None:
        return
    yield from ("--user", runtime.user)
    if runtime.name == PODMAN and euid != _ROOT:
        yield "--userns=keep-id"  # else the user of the container is nobody on the machine


def _devices(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    if not spec.devices:
        return
    if runtime.name == PODMAN:
        for uuid in spec.devices:
            yield from ("--device", f"nvidia.com/gpu={uuid}")
    else:  # the quotes are docker's own: it reads the value as a line of CSV
        yield from ("--gpus", f'"device={",".join(spec.devices)}"')


def _limits(spec: ContainerSpec) -> Iterator[str]:
    if spec.memory_bytes is not None:
        bound = str(spec.memory_bytes)
        yield from ("--memory", bound, "--memory-swap", bound)  # the same: no swap on top
    if spec.cpus is not None:
        yield from ("--cpus", f"{spec.cpus:g}")


def apptainer_run(runtime: Runtime, spec: ContainerSpec) -> tuple[str, ...]:
    """The words of ``run`` or ``exec`` (``engines.apptainer``)."""
    return run_words(
        runtime.program,
        spec.plan,
        home=spec.home,
        mounts=[mount(bind) for bind in spec.binds],
        has_devices=bool(spec.devices),
    )


def _mounts(spec: ContainerSpec) -> Iterator[str]:
    for bind in spec.binds:
        yield from ("--mount", mount(bind))
