"""Composes the command that a supervisor runs for a replica in a container."""

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
    """The settings that all containers of an attempt on this machine share."""

    mark: str
    """UID/ATTEMPT."""
    files: str
    """A private folder for the files from which runtimes read variables."""
    work: str
    """The attempt's folder to write to: the home of its containers."""
    replicas: int
    """The number of replicas that share the machine's memory."""
    hosts: tuple[tuple[str, str], ...] = ()
    """The (address, name) pairs for the hosts file."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder on the machine, folder in the container), as in a launch plan."""
    shown: tuple[str, ...] = ()
    """Folders and files of the attempt that containers have at the same path."""
    reads: tuple[str, ...] = ()
    """Folders and files of the server that containers may read at the same path."""


class Start(NamedTuple):
    """The command that runs a replica's container, and the commands that remove containers."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command; the container has its own."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Commands that remove the attempt's containers, also after every client has ended.

    They run once, before the end of the attempt is recorded.  All replicas have the same
    commands."""
    is_process: bool = False
    """Whether the container's processes are children of the command ``argv``.

    Then the supervisor's limits, host names and binds apply to them.  Otherwise ``argv`` has the
    limits, host names and binds."""


def replica_start(  # noqa: PLR0913 - a replica, and what was chosen for it
    runtime: Runtime | None,
    replica: ReplicaPlan,
    setup: AttemptSetup,
    *,
    env: Mapping[str, str],
    devices: Sequence[str] = (),
    launcher_env: Mapping[str, str] = os.environ,
) -> Start:
    """Compose the command of a replica's container; write the file with its variables.

    ``env`` has the container's variables, of the plan, the attempt and the devices, and none of the
    machine's.  Raises EngineFault without a runtime, OSError if the file cannot be written.
    """
    if runtime is None:
        raise EngineFault(
            "the job's image needs a container runtime, and this machine has none now; install one"
        )
    if replica.container is None:
        raise AssertionError(f"{replica.task_name} has no container")
    user_env = _compose_user_env(runtime, setup)
    spec = _compose_spec(replica, replica.container, setup, {**user_env, **env}, tuple(devices))
    spec = spec._replace(binds=(*spec.binds, *_bind_passwd(runtime, replica, setup)))
    client = client_env(launcher_env)
    if runtime.name in CHILDREN_OF_CLIENT:
        inside = variables(runtime.name, spec.env)
        return Start(apptainer_run(runtime, spec), {**client, **inside}, is_process=True)
    docker_env = for_docker(spec.env)
    flags = (
        "--env-file",
        _write_file(setup.files, replica.task_name, docker_env.file),
        *docker_env.flags,
    )
    return Start(
        argv=docker_run(runtime, spec, flags),
        env={**docker_env.process, **client},
        cleanup=(empty_argv(runtime, spec.mark),),
    )


def container_name(mark: str, task_name: str) -> str:
    """Return a name such as ``ts-1234-2-workerpool0-0``, with which any server can remove it."""
    return f"ts-{mark.replace('/', '-')}-{_NAME.sub('-', task_name)}"


def _compose_user_env(runtime: Runtime, setup: AttemptSetup) -> dict[str, str]:
    """Return variables with the user's name and home, which the image does not have."""
    if runtime.user is None:
        return {}
    return {"HOME": setup.work, "USER": USER_NAME, "LOGNAME": USER_NAME}


def _bind_passwd(runtime: Runtime, replica: ReplicaPlan, setup: AttemptSetup) -> Iterator[Bind]:
    """Yield a mount of an ``/etc/passwd`` with the container's user, which only Docker omits.

    The file has no users of the image except root: the container cannot run as any of them.
    """
    if runtime.name != DOCKER or runtime.user is None:
        return
    uid, gid = (int(part) for part in runtime.user.split(":"))
    if uid != _ROOT:
        path = str(_make_path(setup.files, f"{replica.task_name}.passwd"))
        write_passwd(path, uid, gid, setup.work, base_file=None)
        yield Bind(path, PASSWD, is_read_only=True)


def _compose_spec(
    replica: ReplicaPlan,
    plan: ContainerPlan,
    setup: AttemptSetup,
    env: Mapping[str, str],
    devices: tuple[str, ...],
) -> ContainerSpec:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ContainerSpec(
        name=container_name(setup.mark, replica.task_name),
        mark=setup.mark,
        plan=plan,
        env=env,
        shm_bytes=shm_bytes(replica.memory_bytes_max, memory, setup.replicas),
        home=setup.work,
        hosts=setup.hosts,
        binds=tuple(dict.fromkeys(_list_binds(setup))),
        devices=devices,
        memory_bytes=replica.memory_bytes_max,
        cpus=replica.cpus_max,
        has_peers=setup.replicas > 1,
        processes_max=replica.processes_max or PROCESSES_MAX,
    )


def _list_binds(setup: AttemptSetup) -> Iterator[Bind]:
    """Yield the binds of the job's folders at the machine's paths, and at /gcs."""
    yield Bind(setup.work, setup.work)
    for path in setup.shown:
        yield Bind(path, path)
    for path in setup.reads:
        yield Bind(path, path, is_read_only=True)
    for source, target in setup.binds:
        yield Bind(source, target)
        yield Bind(source, source)


def _write_file(folder: str, task_name: str, text: str) -> str:
    path = _make_path(folder, task_name)
    path.touch(mode=_PRIVATE)
    path.write_text(text, encoding="utf-8")
    return str(path)


def _make_path(folder: str, name: str) -> Path:
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(folder, name)


def hand_over(folders: Iterable[str], user: str | None, *, before: int | None = None) -> None:
    """Make ``UID:GID`` the owner of root's folders and subfolders; links are not followed.

    The owner of folders of the user ``before`` is changed too.  Does nothing if the server is not
    root, or if containers run as the user of their image.  Raises OSError; a folder that is removed
    meanwhile is skipped.
    """
    if user is None or os.geteuid() != _ROOT:
        return
    uid, gid = (int(part) for part in user.split(":"))
    for folder in folders:
        for _, _, descriptor in opened_folders(folder):
            if os.fstat(descriptor).st_uid in {_ROOT, before}:
                os.fchown(descriptor, uid, gid)
