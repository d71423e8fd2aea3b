"""Describes one replica's container, and composes the command lines of the runtimes.

Docker's and podman's ``run`` stays in the foreground: it forwards the container's output and
signals, and ends with the container's exit status.  Values of the job stand after ``--`` or after
an equals sign, so that an image named ``--privileged`` is an image that does not exist.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from trainshed.engines.apptainer import Bind, mount, run_words
from trainshed.engines.container_runtime import PODMAN, Runtime
from trainshed.model.launch_plan import ContainerPlan

_MIB: Final = 1 << 20
SHM_BYTES_MIN: Final = 64 * _MIB
#: The size of /dev/shm is the replica's memory divided by this number, as Linux does for a machine.
_SHM_SHARE: Final = 2

#: The maximum number of processes and threads: data loaders on a large machine have thousands, a
#: fork bomb has more.
PROCESSES_MAX: Final = 32_768


class ContainerSpec(NamedTuple):
    """The settings of one container."""

    name: str
    mark: str
    """UID/ATTEMPT, the label by which the engine finds leftover containers."""
    plan: ContainerPlan
    env: Mapping[str, str]
    shm_bytes: int
    home: str
    """The home of the replica's user: a folder with the same path on the machine and inside."""
    hosts: tuple[tuple[str, str], ...] = ()
    """The (address, name) pairs for the hosts file."""
    binds: tuple[Bind, ...] = ()
    devices: tuple[str, ...] = ()
    """The UUIDs of the replica's GPUs."""
    memory_bytes: int | None = None
    cpus: float | None = None
    processes_max: int = PROCESSES_MAX
    has_peers: bool = False
    """Whether other replicas of the job must reach the container."""


def shm_bytes(memory_bytes: int | None, machine_bytes: int, replicas: int) -> int:
    """Return the size of /dev/shm: half of the replica's memory.

    The default of runtimes is 64 MiB, with which data loaders with several workers die of SIGBUS.
    The size is a limit and reserves nothing; replicas without a memory limit share the machine's
    memory evenly.
    """
    share = machine_bytes // max(replicas, 1)
    return max(SHM_BYTES_MIN, min(memory_bytes or share, share) // _SHM_SHARE)


#: The label of this service's containers; its value is the mark of their attempt.
LABEL: Final = "trainshed.job"
_ROOT: Final = 0
#: Folders in memory where programs may write although their image is read-only.
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - the container's own


def docker_run(
    runtime: Runtime, spec: ContainerSpec, variables: tuple[str, ...], *, euid: int | None = None
) -> tuple[str, ...]:
    """Compose the command line of docker or podman; ``variables`` are the flags for variables."""
    return (
        *(runtime.program, "run", "--rm", "--pull", "missing"),
        *("--name", spec.name, "--label", f"{LABEL}={spec.mark}"),
        *_host_flags(runtime, spec),
        *_isolation_flags(runtime, spec),
        *_user_flags(runtime, os.geteuid() if euid is None else euid),
        *_device_flags(runtime, spec),
        *_limit_flags(spec),
        *variables,
        *docker_started(spec.plan),
    )


def docker_started(plan: ContainerPlan) -> Iterator[str]:
    """Yield the arguments for the image: a command replaces ENTRYPOINT and CMD, args only CMD."""
    if plan.command:
        yield f"--entrypoint={plan.command[0]}"
    yield "--"
    yield plan.image
    if plan.command:
        yield from plan.command[1:]
    yield from plan.args or ()


def remove_argv(runtime: Runtime, container: str) -> tuple[str, ...]:
    """Return the command that kills and removes a container."""
    return (runtime.program, "rm", "--force", container)


#: Removes containers until the runtime lists none.  ``rm`` fails for a container that the runtime
#: is removing by itself at this moment; its errors are dropped.
_REMOVE_ALL: Final = """\
until ids=$("$1" ps --all --quiet --no-trunc --filter "$2" 2> /dev/null) && [ -z "$ids" ]; do
  { [ -n "$ids" ] && "$1" rm --force $ids > /dev/null 2>&1; } || sleep 0.2
done"""


def empty_argv(runtime: Runtime, mark: str) -> tuple[str, ...]:
    """Compose the command that removes an attempt's containers until the runtime lists none."""
    return ("/bin/sh", "-c", _REMOVE_ALL, "sh", runtime.program, f"label={LABEL}={mark}")


def list_argv(runtime: Runtime, mark: str) -> tuple[str, ...]:
    """Compose the command that prints the ids of an attempt's containers, also ended ones."""
    label = f"label={LABEL}={mark}"
    return (runtime.program, "ps", "--all", "--quiet", "--no-trunc", "--filter", label)


def running_argv(runtime: Runtime) -> tuple[str, ...]:
    """Return the command that prints the ids of the running containers of all attempts."""
    return (runtime.program, "ps", "--quiet", "--no-trunc", "--filter", f"label={LABEL}")


def inspect_argv(runtime: Runtime, containers: Iterable[str]) -> tuple[str, ...]:
    """Return the command that prints a line for each container: its first pid, and UID/ATTEMPT."""
    line = f'{{{{.State.Pid}}}} {{{{index .Config.Labels "{LABEL}"}}}}'
    return (runtime.program, "inspect", "--format", line, *containers)


def _host_flags(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    """Yield flags for network, memory and names: replicas share the host's network and ports."""
    if runtime.has_init:
        yield "--init"  # a program that runs as process 1 ignores SIGTERM by default
    if spec.has_peers or not runtime.is_isolated:
        yield from ("--network", "host")
    if runtime.name == PODMAN:  # the server's proxy may have a password; jobs get it by pass_env
        yield "--http-proxy=false"
    yield from ("--log-driver", "none")
    yield from ("--shm-size", str(spec.shm_bytes))
    yield from ("--security-opt", "label=disable")  # SELinux would keep buckets from being read
    for address, name in spec.hosts:
        yield from ("--add-host", f"{name}:{address}")
    yield from _mount_flags(spec)


def _isolation_flags(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    """Yield flags for the level ``restricted`` of Kubernetes' Pod Security, and a read-only image.

    Without a flag for the network, a container has its own network.  From it, the container reaches
    neither the server's loopback nor the ports of other jobs.
    """
    if runtime.is_isolated:
        yield from ("--cap-drop", "ALL", "--pids-limit", str(spec.processes_max))
    elif runtime.name == PODMAN:
        yield from ("--pids-limit", "-1")  # its default of 2048 is too low for data loaders
    if runtime.is_isolated or runtime.user is not None:
        yield from ("--security-opt", "no-new-privileges")
    if runtime.is_read_only:
        yield "--read-only"
        for folder in _TEMPORARY:
            yield from ("--tmpfs", f"{folder}:rw,exec,nosuid,nodev,mode=1777")


def _user_flags(runtime: Runtime, euid: int) -> Iterator[str]:
    if runtime.user is None:
        return
    yield from ("--user", runtime.user)
    if runtime.name == PODMAN and euid != _ROOT:
        yield "--userns=keep-id"  # else the container's user is not the server's on the machine


def _device_flags(runtime: Runtime, spec: ContainerSpec) -> Iterator[str]:
    if not spec.devices:
        return
    if runtime.name == PODMAN:
        for uuid in spec.devices:
            yield from ("--device", f"nvidia.com/gpu={uuid}")
    else:  # docker reads the value as a line of CSV, hence the quotes
        yield from ("--gpus", f'"device={",".join(spec.devices)}"')


def _limit_flags(spec: ContainerSpec) -> Iterator[str]:
    if spec.memory_bytes is not None:
        limit = str(spec.memory_bytes)
        yield from ("--memory", limit, "--memory-swap", limit)  # equal values allow no swap
    if spec.cpus is not None:
        yield from ("--cpus", f"{spec.cpus:g}")


def apptainer_run(runtime: Runtime, spec: ContainerSpec) -> tuple[str, ...]:
    """Return the command line of ``run`` or ``exec`` (``engines.apptainer``)."""
    return run_words(
        runtime.program,
        spec.plan,
        home=spec.home,
        mounts=[mount(bind) for bind in spec.binds],
        has_devices=bool(spec.devices),
    )


def _mount_flags(spec: ContainerSpec) -> Iterator[str]:
    for bind in spec.binds:
        yield from ("--mount", mount(bind))
