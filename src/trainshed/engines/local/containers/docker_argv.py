"""The command line of docker and podman for one container.

``run`` stays in the foreground: it passes the container's output and signals on and ends with its
exit status.  What the job chose comes behind ``--`` or behind an equals sign, so that an image
named ``--privileged`` is an image that does not exist.
"""

import os
from collections.abc import Iterator
from typing import Final

from trainshed.engines.container_runtime import PODMAN, Runtime
from trainshed.engines.local.containers.box import Box, mount
from trainshed.model.launch_plan import ContainerPlan

#: How containers of ours differ from those of others, and of which attempt they are.
LABEL: Final = "trainshed.job"
_ROOT: Final = 0


def run_argv(
    runtime: Runtime, box: Box, variables: tuple[str, ...], *, euid: int | None = None
) -> tuple[str, ...]:
    """The words of ``run``; ``variables`` are the flags that give the container its variables."""
    return (
        *(runtime.program, "run", "--rm", "--pull", "missing"),
        *("--name", box.name, "--label", f"{LABEL}={box.mark}"),
        *_surroundings(runtime, box),
        *_user(runtime, os.geteuid() if euid is None else euid),
        *_devices(runtime, box),
        *_limits(runtime, box),
        *variables,
        *started(box.plan),
    )


def started(plan: ContainerPlan) -> Iterator[str]:
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


def _surroundings(runtime: Runtime, box: Box) -> Iterator[str]:
    """The host's network, as processes have it: numbers of ports in TF_CONFIG mean the same."""
    if runtime.has_init:
        yield "--init"  # a program that is process 1 does not hear SIGTERM
    yield from ("--network", "host", "--log-driver", "none")
    yield from ("--shm-size", str(box.shm_bytes))
    yield from ("--security-opt", "label=disable")  # SELinux would keep buckets from being read
    for address, name in box.hosts:
        yield from ("--add-host", f"{name}:{address}")
    for bind in box.binds:
        yield from ("--mount", mount(bind))


def _user(runtime: Runtime, euid: int) -> Iterator[str]:
    if runtime.user is None:
        return
    yield from ("--user", runtime.user, "--security-opt", "no-new-privileges")
    if runtime.name == PODMAN and euid != _ROOT:
        yield "--userns=keep-id"  # else the user of the container is nobody on the machine


def _devices(runtime: Runtime, box: Box) -> Iterator[str]:
    if not box.devices:
        return
    if runtime.name == PODMAN:
        for uuid in box.devices:
            yield from ("--device", f"nvidia.com/gpu={uuid}")
    else:  # the quotes are docker's own: it reads the value as a line of CSV
        yield from ("--gpus", f'"device={",".join(box.devices)}"')


def _limits(runtime: Runtime, box: Box) -> Iterator[str]:
    if box.memory_bytes is not None:
        bound = str(box.memory_bytes)
        yield from ("--memory", bound, "--memory-swap", bound)  # the same: no swap on top
    if box.cpus is not None:
        yield from ("--cpus", f"{box.cpus:g}")
    if box.pids is not None:
        yield from ("--pids-limit", str(box.pids))
    elif runtime.name == PODMAN:
        yield from ("--pids-limit", "-1")  # its 2048 are few for data loaders on a large machine
