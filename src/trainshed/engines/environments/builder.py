"""Runs the commands that build packages, isolated like the job: build backends are its programs.

They run as the user of their project, and write to folders that belong to that user.  The server
becomes the owner of the result before a job imports it, so that no program can change it later.
"""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.isolation.compose import ProjectUser, give
from trainshed.engines.isolation.enter import find_program_pid, isolate_program, list_wrappers
from trainshed.engines.isolation.modes import LANDLOCK
from trainshed.engines.isolation.view import NO_FOLDERS, Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.engines.processes.variables import select_for_builders
from trainshed.engines.supervise.short_tmp import make_short_name
from trainshed.files.trees import opened_folders

#: The folder below the cache with one folder for each project, by its number.
PROJECTS: Final = "projects"
#: The folder for uv's cache, such as its downloads, below the folder of a project.
UV_CACHE: Final = "uv"
_UV_SETTINGS: Final = "/etc/uv/uv.toml"
_PRIVATE_FOLDER: Final = 0o700
_READABLE: Final = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH
_CAREFUL: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTERS: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class Build(NamedTuple):
    """A build command, ready to run."""

    argv: tuple[str, ...]
    env: dict[str, str]
    enter: Callable[[], None]
    """The function that the forked child calls before exec."""
    descriptors: tuple[int, ...] = ()
    """Descriptors of the command; the caller closes them after the fork."""


class Builder(NamedTuple):
    """The isolation of builds; by default they run as the server's own user."""

    view: ReplicaView | None = None
    """The files that builds may read, and their temporary folder."""
    owner: ProjectUser | None = None
    """The user that owns the folders; None: the server's own user."""
    passed: tuple[str, ...] = ()
    """The names of variables that builds get besides those of ``processes.variables``."""

    def cache(self, project: Path) -> Path | None:
        """Return uv's cache in a project's folder; None: uv uses the cache of the server's user."""
        return None if self.view is None else project / UV_CACHE

    def build(
        self, argv: Sequence[str], work: Path, cache: Path, reads: tuple[str, ...] = ()
    ) -> Build:
        """Prepare a command that may write only to ``work``; ``cache`` is the project's folder.

        Call this in the process that forks: this process adopts the processes that the command
        leaves behind.
        """
        parent = os.getpid()
        own_cache = self.cache(cache)
        if self.view is None or own_cache is None:
            env = {**os.environ, "NO_COLOR": "1"}
            return Build(tuple(argv), env, partial(tree.die_with_parent, parent))
        tree.adopt_orphans(on=True)
        own_cache.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        self._give(work)
        if self.owner is not None and own_cache.stat().st_uid != self.owner.uid:
            self._give(own_cache)  # only on a change: it is large, and no other process writes it
        reads = (*self.view.reads, *reads)
        view = self.view._replace(writes=(str(work), str(own_cache)), reads=reads)
        env = select_for_builders(os.environ, self.passed) | {"NO_COLOR": "1"}
        env |= {"HOME": str(work), "UV_CACHE_DIR": str(own_cache), "UV_LINK_MODE": "copy"}
        private_tmp = "/tmp"  # noqa: S108 - the build's own
        env["TMPDIR"] = make_short_name(view.tmp) if view.mode == LANDLOCK else private_tmp
        env |= _uv_settings()
        more = NO_FOLDERS._replace(resolver=view.resolver or None)
        run = isolate_program(view, argv, Mounts(more=more), env)
        return Build(run.argv, dict(run.env), partial(_enter, run.enter, parent), run.descriptors)

    def end(self) -> None:
        """Kill leftover processes of builds: they could change the result later."""
        if self.view is None:
            return
        with suppress(ChildProcessError):
            while True:
                tree.kill_listed(lambda: [pid for _, pid in tree.descendants(os.getpid())])
                os.waitpid(-1, 0)

    def end_left(self, pid: int) -> None:
        """Kill orphaned processes of the running command ``pid``, for which it may wait.

        While the command has a child, the command still builds, and an orphan may be a server of
        its compilers.  So this kills nothing then.
        """
        if self.view is None:
            return
        command = find_program_pid(self.view, pid)
        if not tree.living(tree.children(command)):
            own_pids = {command, pid, *list_wrappers(self.view, pid)}
            parent = os.getpid()
            tree.kill_listed(lambda: [p for _, p in tree.descendants(parent) if p not in own_pids])

    def _give(self, folder: Path) -> None:
        """Make the builder's user the owner of a folder and its content."""
        if self.owner is not None:
            give(str(folder.parent), self.owner, folder.name)

    def take_back(self, folder: Path) -> None:
        """Make the server the owner of a folder; all other users may only read the folder."""
        if self.owner is None:
            return
        above, name = str(folder.parent), folder.name  # a program may have put a link there
        give(above, ProjectUser(os.geteuid(), os.getegid()), name)
        for _, files, descriptor in opened_folders(above, name):
            os.fchmod(descriptor, _READABLE | _ENTERS)
            for name in files:
                _open_to_readers(name, descriptor)


def _uv_settings() -> dict[str, str]:
    """Return variables that limit uv to the machine's settings: parent folders are hidden."""
    is_readable = os.access(_UV_SETTINGS, os.R_OK)
    return {"UV_CONFIG_FILE": _UV_SETTINGS} if is_readable else {"UV_NO_CONFIG": "1"}


def _enter(enter_isolation: Callable[[], None] | None, parent: int) -> None:
    tree.die_with_parent(parent)
    if enter_isolation is not None:
        enter_isolation()
        tree.die_with_parent(parent)  # a change of the user resets this


def _open_to_readers(name: str, folder: int) -> None:
    with suppress(OSError):  # a link, or something that cannot be opened
        descriptor = os.open(name, _CAREFUL, dir_fd=folder)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                os.fchmod(descriptor, _READABLE | (_ENTERS if mode & stat.S_IXUSR else 0))
        finally:
            os.close(descriptor)
