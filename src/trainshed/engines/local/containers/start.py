"""From a replica of a launch plan to what a supervisor runs for it where it has a container."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.apptainer import Bind, client_env, variables
from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT, DOCKER, Runtime
from trainshed.engines.isolation.modes import USER_NAME
from trainshed.engines.isolation.mounts import PASSWD, write_passwd
from trainshed.engines.local.containers.argv import (
    PROCESSES_MAX,
    ContainerSpec,
    apptainer_run,
    docker_run,
    empty_argv,
    shm_bytes,
)
from trainshed.engines.local.containers.variables import for_docker
from trainshed.files.trees import opened_folders
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan, ReplicaPlan

_ROOT: Final = 0
_PRIVATE: Final = 0o600
_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")


class AttemptSetup(NamedTuple):
    """What all replicas of an attempt on this machine share."""

    mark: str
    """UID/ATTEMPT."""
    files: str
    """A private folder for the files that runtimes read variables from."""
    work: str
    """The attempt's folder to write to: the home of its containers."""
    replicas: int
    """How many share the machine's memory."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name)."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder here, folder there), as in a launch plan."""
    shown: tuple[str, ...] = ()
    """Folders and files of the attempt that are found in containers at the same place."""
    reads: tuple[str, ...] = ()
    """The same of the server's, closed for writing."""


class Start(NamedTuple):
    """How a replica's container is run."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command; the container has its own."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Commands that end what may be left of the attempt when no client lives: to be run before the
    end of the attempt is recorded.  Replicas have the same, which is to be run once."""
    is_process: bool = False
    """Whether the container's processes are the replica's own: limits, names and folders that
    processes are given hold for it too.  Else they are in ``argv``."""


def replica_start(  # noqa: PLR0913 - one replica, and what is chosen for it
    runtime: Runtime | None,
    replica: ReplicaPlan,
    around: AttemptSetup,
    *,
    env: Mapping[str, str],
    devices: Sequence[str] = (),
    launcher_env: Mapping[str, str] = os.environ,
) -> Start:
    """Compose the command of a replica's container; writes the file with its variables.

    ``env`` are the container's variables: the plan's, the attempt's and those of the devices, and
    nothing of the machine's.  Raises EngineFault where there is no runtime, OSError for the file.
    """
    if runtime is None:
        raise EngineFault("the job's image needs a container runtime, which is no longer available")
    if replica.container is None:
        raise AssertionError(f"{replica.task_name} has no container")
    named = _user_env(runtime, around)
    spec = _spec(replica, replica.container, around, {**named, **env}, tuple(devices))
    spec = spec._replace(binds=(*spec.binds, *_bind_passwd(runtime, replica, around)))
    client = client_env(launcher_env)
    if runtime.name in CHILDREN_OF_CLIENT:
        inside = variables(runtime.name, spec.env)
        return Start(apptainer_run(runtime, spec), {**client, **inside}, is_process=True)
    docker_env = for_docker(spec.env)
    flags = (
        "--env-file",
        _write_file(around.files, replica.task_name, docker_env.file),
        *docker_env.flags,
    )
    return Start(
        argv=docker_run(runtime, spec, flags),
        env={**docker_env.process, **client},
        cleanup=(empty_argv(runtime, spec.mark),),
    )


def container_name(mark: str, task_name: str) -> str:
    """``ts-1234-2-workerpool0-0``: the same whoever asks, so that any server can remove it."""
    return f"ts-{mark.replace('/', '-')}-{_NAME.sub('-', task_name)}"


def _user_env(runtime: Runtime, around: AttemptSetup) -> dict[str, str]:
    """A user that the image does not know has neither a name nor a folder to write to there."""
    if runtime.user is None:
        return {}
    return {"HOME": around.work, "USER": USER_NAME, "LOGNAME": USER_NAME}


def _bind_passwd(runtime: Runtime, replica: ReplicaPlan, around: AttemptSetup) -> Iterator[Bind]:
    """Docker alone leaves the user of a container out of its ``/etc/passwd``.

    Of the image's own users root is kept: the container can be none of them.
    """
    if runtime.name != DOCKER or runtime.user is None:
        return
    uid, gid = (int(part) for part in runtime.user.split(":"))
    if uid != _ROOT:
        path = str(_make_path(around.files, f"{replica.task_name}.passwd"))
        write_passwd(path, uid, gid, around.work, base_file=None)
        yield Bind(path, PASSWD, is_read_only=True)


def _spec(
    replica: ReplicaPlan,
    plan: ContainerPlan,
    around: AttemptSetup,
    env: Mapping[str, str],
    devices: tuple[str, ...],
) -> ContainerSpec:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ContainerSpec(
        name=container_name(around.mark, replica.task_name),
        mark=around.mark,
        plan=plan,
        env=env,
        shm_bytes=shm_bytes(replica.memory_bytes_max, memory, around.replicas),
        home=around.work,
        hosts=around.hosts,
        binds=tuple(dict.fromkeys(_binds(around))),
        devices=devices,
        memory_bytes=replica.memory_bytes_max,
        cpus=replica.cpus_max,
        has_peers=around.replicas > 1,
        processes_max=replica.processes_max or PROCESSES_MAX,
    )


def _binds(around: AttemptSetup) -> Iterator[Bind]:
    """The job's folders where the machine has them, which AIP_* and --job-dir name, and at /gcs."""
    yield Bind(around.work, around.work)
    for place in around.shown:
        yield Bind(place, place)
    for place in around.reads:
        yield Bind(place, place, is_read_only=True)
    for here, there in around.binds:
        yield Bind(here, there)
        yield Bind(here, here)


def _write_file(folder: str, task_name: str, text: str) -> str:
    path = _make_path(folder, task_name)
    path.touch(mode=_PRIVATE)
    path.write_text(text, encoding="utf-8")
    return str(path)


def _make_path(folder: str, name: str) -> Path:
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(folder, name)


def hand_over(folders: Iterable[str], user: str | None, *, before: int | None = None) -> None:
    """Give folders that are root's, and those below them, to ``UID:GID``; links are not followed.

    Those of the user ``before`` are given too.  Does nothing for a server that is not root, or
    containers that are their images' users.  Raises OSError; folders that are removed meanwhile are
    passed over.
    """
    if user is None or os.geteuid() != _ROOT:
        return
    uid, gid = (int(part) for part in user.split(":"))
    for folder in folders:
        for _, _, descriptor in opened_folders(folder):
            if os.fstat(descriptor).st_uid in {_ROOT, before}:
                os.fchown(descriptor, uid, gid)
