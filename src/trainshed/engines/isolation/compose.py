"""Composes the isolation of each replica from a launch plan, and prepares the folders for it."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trainshed.engines.bucket_groups import share_bucket
from trainshed.engines.isolation import interpreters
from trainshed.engines.isolation.modes import (
    CALL_FAMILIES,
    CONTAINER,
    FILTERED,
    LANDLOCK,
    NONE,
    SANDBOX,
    USER_NAME,
    USERS,
)
from trainshed.engines.isolation.view import ReplicaView
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.short_tmp import make_short_name
from trainshed.files.beneath import Beneath
from trainshed.files.trees import opened_folders
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.engines.isolation.replica_machine import ReplicaMachine

_PRIVATE_FOLDER: Final = 0o700
#: Sticky: a user can remove only its own files there.
_TMP_MODE: Final = 0o1777
_ONLY_IMAGES: Final = '[isolation] mode is "container": this server runs only jobs with an image'


class Isolation(NamedTuple):
    """The isolation of this server's jobs (``choose`` decides it)."""

    mode: str
    uids: tuple[int, int] = (0, 0)
    """The first and the last UID and GID for projects."""
    hides: tuple[str, ...] = ()
    """Folders of the server that jobs must not see."""
    warning: str = ""
    """A warning for the log of each job."""
    refused_calls: tuple[str, ...] = CALL_FAMILIES
    """The families of system calls that programs may not make, in modes with a filter."""
    refuses_ports: bool = False
    """Whether programs may not bind to ports of the server, in *landlock*."""
    ports_note: str = ""
    """The reason why the ports cannot be refused, as text for people."""

    @property
    def description(self) -> str:
        """The text for logs and messages."""
        if self.mode == USERS:
            first, last = self.uids
            return f"{USERS}: a user for every project, {first} to {last}{self._unfiltered}"
        return self.warning or f"{self.mode}{self._unfiltered}{self.ports_note}"

    @property
    def _unfiltered(self) -> str:
        """Text that names the families of system calls that programs may make."""
        if self.mode not in FILTERED:
            return ""
        allowed = [name for name in CALL_FAMILIES if name not in self.refused_calls]
        if len(allowed) == len(CALL_FAMILIES):
            return ", system calls are not filtered"
        return f", seccomp allows {', '.join(allowed)}" if allowed else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines about isolation in each job's log."""
        return () if self.warning else (f"isolation: {self.mode}{self._unfiltered}",)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about isolation in each job's log."""
        return (self.warning,) if self.warning else ()

    @property
    def has_users(self) -> bool:
        """Whether each project has a user of its own."""
        return self.mode == USERS or (self.mode == CONTAINER and os.geteuid() == 0)

    @property
    def has_names(self) -> bool:
        """Whether a process sees a hosts file of its own."""
        # a local run does not need this import
        from trainshed.engines.isolation import mounts  # noqa: PLC0415 - see above

        return self.mode in {USERS, SANDBOX} or (self.mode == NONE and mounts.allowed())

    @property
    def isolates_programs(self) -> bool:
        """Whether the mode isolates programs at all."""
        return self.mode != NONE


class ProjectUser(NamedTuple):
    """The user of a job's processes and files, where projects have users of their own."""

    uid: int
    gid: int


def owner_of(isolation: Isolation | None, plan: LaunchPlan) -> ProjectUser | None:
    """Return the user of a plan's project.  Raises EngineFault if the range has none for it."""
    if isolation is None or not isolation.has_users:
        return None
    if plan.owner is None:
        raise EngineFault("cannot choose a user for the job: the plan names no project")
    first, last = isolation.uids
    if first + plan.owner.number > last:
        raise EngineFault(
            f"[isolation] uids = [{first}, {last}] has no user for the project "
            f"{plan.owner.project}, which is number {plan.owner.number}; widen the range"
        )
    return ProjectUser(first + plan.owner.number, first + plan.owner.number)


def view_of(  # noqa: PLR0913 - the parts of a view
    isolation: Isolation | None,
    plan: LaunchPlan,
    replica: ReplicaPlan,
    *,
    folder: AttemptFolder,
    entries: Sequence[str] = (),
    devices: Sequence[str] = (),
    machine: "ReplicaMachine | None" = None,
) -> ReplicaView | None:
    """Compose what a replica sees; ``entries`` are its interpreter and its package folders.

    Raises EngineFault for a program where only containers may run.
    """
    if isolation is None:
        return None
    owner = owner_of(isolation, plan)
    folders = machine.shown if machine else ()
    if not isolation.isolates_programs or (isolation.mode == CONTAINER and replica.container):
        return ReplicaView(isolation.mode, folders=folders)
    if isolation.mode == CONTAINER:
        raise EngineFault(_ONLY_IMAGES)
    own_python = (sys.executable,) if replica.role is Role.REDUCER else ()
    return ReplicaView(
        mode=isolation.mode,
        writes=tuple(
            dict.fromkeys(
                (*_list_written_paths(plan, folder), *([machine.folder] if machine else []))
            )
        ),
        reads=tuple(
            dict.fromkeys(
                (
                    *_reads((*entries, plan.environment.python, *own_python), plan.reads),
                    *plan.shown,
                    *([machine.tools.folder] if machine else []),
                )
            )
        ),
        folders=folders,
        hides=isolation.hides,
        devices=tuple(devices),
        tmp=folder.tmp,
        uid=owner and owner.uid,
        gid=owner and owner.gid,
        has_peers=bool(devices) and len(plan.replicas) > 1,
        refused_calls=isolation.refused_calls,
        refused_ports=plan.server_ports if isolation.refuses_ports else (),
    )


def builder_of(
    isolation: Isolation | None, plan: LaunchPlan, folder: AttemptFolder
) -> tuple[ReplicaView | None, ProjectUser | None]:
    """Return the file system view and the user of the builders of a plan's packages.

    Raises EngineFault, also if only containers may run: their images install packages.
    """
    if isolation is None or isolation.mode == NONE:
        return None, None
    if isolation.mode == CONTAINER:
        if plan.environment.packages or plan.environment.requirements:
            raise EngineFault(_ONLY_IMAGES)
        return None, None
    owner = owner_of(isolation, plan)
    view = ReplicaView(
        mode=isolation.mode,
        reads=tuple(dict.fromkeys(_reads((sys.executable, plan.environment.python), plan.reads))),
        hides=isolation.hides,
        tmp=folder.tmp,
        resolver=folder.resolver if plan.network is not None else "",
        uid=owner and owner.uid,
        gid=owner and owner.gid,
        refused_calls=isolation.refused_calls,
        refused_ports=plan.server_ports if isolation.refuses_ports else (),
    )
    return view, owner


def variables_of(isolation: Isolation | None, folder: AttemptFolder) -> dict[str, str]:
    """Return the variables that replace the server's home and user name for isolated programs.

    In the mode *landlock* this also makes the short name of the folder of temporary files.
    """
    if isolation is None or isolation.mode in {NONE, CONTAINER}:
        return {}
    own = {"HOME": folder.work, "USER": USER_NAME, "LOGNAME": USER_NAME}
    return own | ({"TMPDIR": make_short_name(folder.tmp)} if isolation.mode == LANDLOCK else {})


def _list_written_paths(plan: LaunchPlan, folder: AttemptFolder) -> Iterator[str]:
    yield from own_folders(plan, folder)
    for source, _ in plan.binds:
        yield source


def _reads(entries: Iterable[str], reads: Iterable[str]) -> Iterator[str]:
    """Yield the paths that a replica may read; for an interpreter, the folders that it needs.

    The server has made the links in the folders of ``reads``, so this also yields their targets.
    In other folders, programs of the job may have made links.
    """
    paths = tuple(reads)
    for path in (*entries, *paths):
        if os.path.isfile(path):
            yield from interpreters.folders_of(path)
        elif path.startswith("/"):
            yield path
    for path in paths:
        yield from _resolve_links(path)


def _resolve_links(folder: str) -> Iterator[str]:
    """Yield the targets of the links in a folder of the server."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield os.path.realpath(entry.path)


def own_folders(plan: LaunchPlan, folder: AttemptFolder) -> tuple[str, ...]:
    """Return the folders that an attempt's programs write to; the first is their start folder.

    Metric files may be in other folders, outside of the attempt: their owner is not changed.
    """
    files = () if plan.metrics is None else plan.metrics.files
    metrics = dict.fromkeys(os.path.dirname(file) for file in files)
    inside = (path for path in metrics if path.startswith(f"{folder.path}/"))
    return (folder.work, folder.shared, *inside)


def reports_folder(plan: LaunchPlan, replica: ReplicaPlan, folder: AttemptFolder) -> str:
    """Return the folder of the reports of a trial's primary; empty for other replicas and jobs."""
    inside = own_folders(plan, folder)[2:]
    return next(iter(inside), "") if replica.role is Role.PRIMARY else ""


def make_ready(isolation: Isolation | None, plan: LaunchPlan, folder: AttemptFolder) -> None:
    """Make the folders that a job's programs write to, and give them to the job's user.

    Raises OSError or EngineFault.
    """
    if isolation is None or not isolation.isolates_programs:
        return
    owner = owner_of(isolation, plan)
    own = make_own_folders(plan, folder)
    if owner is not None:
        for path in own:
            give(folder.path, owner, path.removeprefix(f"{folder.path}/"))
        for source, _ in plan.binds:
            share_bucket(source, owner.gid)


def make_own_folders(plan: LaunchPlan, folder: AttemptFolder) -> tuple[str, ...]:
    """Make the folders of ``own_folders`` and the attempt's ``/tmp``.  Raises OSError.

    No link is followed: the attempt may have begun, and its programs may have made links in these
    folders.
    """
    own = own_folders(plan, folder)
    os.makedirs(folder.path, mode=_PRIVATE_FOLDER, exist_ok=True)
    with Beneath(folder.path) as attempt:
        for path in own:
            attempt.make_folders(path.removeprefix(f"{folder.path}/"), _PRIVATE_FOLDER)
        attempt.make_folders(folder.tmp.removeprefix(f"{folder.path}/"), _TMP_MODE)
    return own


def give(root: str, owner: ProjectUser, below: str = "") -> None:
    """Change the owner of a root, or of a folder below it, and of all its content.

    Only links in the path of the root are followed.  Raises OSError.
    """
    for _, files, descriptor in opened_folders(root, below):
        os.fchown(descriptor, *owner)
        for name in files:
            with suppress(FileNotFoundError):
                os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)


def hidden_folders(paths: Iterable[str | None]) -> tuple[str, ...]:
    """Return the real paths of these folders, without the root."""
    real_paths = dict.fromkeys(os.path.realpath(path) for path in paths if path)
    return tuple(path for path in real_paths if path != "/")
