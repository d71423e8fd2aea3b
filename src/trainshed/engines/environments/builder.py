"""Chooses the user and the folders that build packages: build backends are programs of the job.

They run behind the walls of their project, and write to folders that are given to it.  What they
have made becomes the server's before a job imports it, so that no program can change it later.
"""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.isolation.compose import ProjectUser, give
from trainshed.engines.isolation.enter import program, walled, wrappers
from trainshed.engines.isolation.modes import LANDLOCK
from trainshed.engines.isolation.mounts import NO_FOLDERS
from trainshed.engines.isolation.view import Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.engines.processes.variables import select_for_builders
from trainshed.engines.supervise.short_tmp import make_short_name
from trainshed.files.trees import opened_folders

#: Below the cache: one for each project, by its number.
PROJECTS: Final = "projects"
#: Below the folder of a project: what uv keeps, such as what it has downloaded.
UV_CACHE: Final = "uv"
_UV_SETTINGS: Final = "/etc/uv/uv.toml"
_PRIVATE_FOLDER: Final = 0o700
_READABLE: Final = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH
_CAREFUL: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTERS: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class Build(NamedTuple):
    """A command that builds, as it is run."""

    argv: tuple[str, ...]
    env: dict[str, str]
    enter: Callable[[], None]
    """Called in the forked child."""
    descriptors: tuple[int, ...] = ()
    """Descriptors of the command; the caller closes them after the fork."""


class Builder(NamedTuple):
    """By default the server's own user, without walls."""

    view: ReplicaView | None = None
    """What it may read, and its temporary files."""
    owner: ProjectUser | None = None
    """The user that owns the folders; None: the server's own user."""
    passed: tuple[str, ...] = ()
    """What it has of the environment besides the usual (``processes.variables``)."""

    def cache(self, project: Path) -> Path | None:
        """Below the folder of a project what uv keeps of it; None: it is our user's own."""
        return None if self.view is None else project / UV_CACHE

    def build(
        self, argv: Sequence[str], work: Path, cache: Path, reads: tuple[str, ...] = ()
    ) -> Build:
        """How a command runs that may write to ``work`` alone; ``cache`` is the project's.

        To be called in the process that forks, which adopts what the command leaves behind.
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
            self._give(own_cache)  # large, and no other process writes there
        reads = (*self.view.reads, *reads)
        view = self.view._replace(writes=(str(work), str(own_cache)), reads=reads)
        env = select_for_builders(os.environ, self.passed) | {"NO_COLOR": "1"}
        env |= {"HOME": str(work), "UV_CACHE_DIR": str(own_cache), "UV_LINK_MODE": "copy"}
        own = "/tmp"  # noqa: S108 - its own
        env["TMPDIR"] = make_short_name(view.tmp) if view.mode == LANDLOCK else own
        env |= _uv_settings()
        more = NO_FOLDERS._replace(resolver=view.resolver or None)
        run = walled(view, argv, Mounts(more=more), env)
        return Build(run.argv, dict(run.env), partial(_enter, run.enter, parent), run.descriptors)

    def end(self) -> None:
        """Kill what has left its process group: it could change what is looked at next."""
        if self.view is None:
            return
        with suppress(ChildProcessError):
            while True:
                tree.kill_listed(lambda: [pid for _, pid in tree.descendants(os.getpid())])
                os.waitpid(-1, 0)

    def end_left(self, pid: int) -> None:
        """Kill what a command, ``pid``, has left while it runs on: it may wait for its output.

        As long as it has a child it builds, and those may be servers of its compilers.
        """
        if self.view is None:
            return
        command = program(self.view, pid)
        if not tree.living(tree.children(command)):
            its = {command, pid, *wrappers(self.view, pid)}
            below = os.getpid()
            tree.kill_listed(lambda: [p for _, p in tree.descendants(below) if p not in its])

    def _give(self, folder: Path) -> None:
        """Have a folder, with all that is in it, be the builder's."""
        if self.owner is not None:
            give(str(folder.parent), self.owner, folder.name)

    def take_back(self, folder: Path) -> None:
        """Have it be ours, readable by all who get there and written by none."""
        if self.owner is None:
            return
        above, name = str(folder.parent), folder.name  # a program may have put a link there
        give(above, ProjectUser(os.geteuid(), os.getegid()), name)
        for _, files, descriptor in opened_folders(above, name):
            os.fchmod(descriptor, _READABLE | _ENTERS)
            for name in files:
                _open_to_readers(name, descriptor)


def _uv_settings() -> dict[str, str]:
    """The machine's alone: uv looks for others in every folder above, which are behind walls."""
    is_there = os.access(_UV_SETTINGS, os.R_OK)
    return {"UV_CONFIG_FILE": _UV_SETTINGS} if is_there else {"UV_NO_CONFIG": "1"}


def _enter(walls: Callable[[], None] | None, parent: int) -> None:
    tree.die_with_parent(parent)
    if walls is not None:
        walls()
        tree.die_with_parent(parent)  # who becomes another user has lost it


def _open_to_readers(name: str, folder: int) -> None:
    with suppress(OSError):  # a link, or something that cannot be opened
        descriptor = os.open(name, _CAREFUL, dir_fd=folder)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                os.fchmod(descriptor, _READABLE | (_ENTERS if mode & stat.S_IXUSR else 0))
        finally:
            os.close(descriptor)
