"""Makes the folders that trainers expect on their machine, private to one replica.

At Google a replica is a machine of its own, whose user is root: ``/root`` is its home, images have
``/workspace``, ``/app`` and ``/model``, and trials report below ``/var/hypertune``.  In Trainshed
each is a folder of the attempt, mounted at that path if the replica has mounts.
"""

import errno
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from trainshed.engines.environments import overlay as overlays
from trainshed.engines.environments.overlay import PythonOverlay
from trainshed.engines.environments.replica_tools import ReplicaTools
from trainshed.engines.isolation import mounts
from trainshed.engines.isolation.modes import LANDLOCK, NONE, SANDBOX, USERS
from trainshed.engines.isolation.mounts import HOME
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.files.trees import remove_tree

HYPERTUNE: Final = "/var/hypertune"
#: The folders that programs expect besides their home, and that most machines do not have.
PLACES: Final = ("/workspace", "/app", "/model")
_FOLDER_MODE: Final = 0o700
_OVERLAY: Final = "python"
_EXISTS_ERRNOS: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})


class ReplicaMachine(NamedTuple):
    """The folders of one replica, and the changes to its variables and command."""

    folder: str
    """The folder that contains them."""
    home: str
    """HOME, as the replica sees it; empty: the server's HOME."""
    shown: tuple[tuple[str, str], ...]
    """(folder on the machine, folder in the replica) to mount; empty without mounts."""
    overlay: PythonOverlay | None
    tools: ReplicaTools

    def variables(
        self, env: Mapping[str, str], python: str, own: Collection[str]
    ) -> dict[str, str]:
        """Return ``env`` with the variables of these folders, except for names in ``own``.

        ``python`` is the mapped interpreter, ``own`` the names of the plan's variables.
        """
        home = {"HOME": self.home} if self.home else {}
        overlay = self.overlay.variables if self.overlay else {}
        added = {name: text for name, text in (home | overlay).items() if name not in own}
        path = self._path(env.get("PATH", os.defpath), python)
        return {**env, **added, "PATH": path}

    def _path(self, path: str, python: str) -> str:
        """Return PATH with the overlay first, unless the job has set folders of its own."""
        if not path.startswith(f"{os.path.dirname(python)}{os.pathsep}"):
            return path
        first = self.overlay.path if self.overlay else (self.tools.bin,)
        return os.pathsep.join((*first, path))

    def command(self, argv: tuple[str, ...], path: str, *pythons: str) -> tuple[str, ...]:
        """Return a command with the overlay's interpreter in place of the mapped one.

        ``path`` is the replica's PATH.  If it begins with the overlay, the name ``python`` is
        enough, and the command line does not contain the folder of the attempt.
        """
        if self.overlay is None or argv[0] not in pythons:
            return argv
        folder, name = os.path.split(self.overlay.python)
        is_first = path.split(os.pathsep, maxsplit=1)[0] == folder
        return (name if is_first else self.overlay.python, *argv[1:])

    def make(self, owner: tuple[int, int] | None, path: str) -> None:
        """Make the folders for their owner; ``path`` is the replica's PATH.  Raises OSError.

        The folders are made under another name and then renamed: another server may begin the same
        attempt, and root must not write below a folder that programs of the job may have changed.
        """
        draft = f"{self.folder}.{os.urandom(4).hex()}"
        home = f"{draft}{HOME}"
        for path_in_replica in (HOME, HYPERTUNE, *PLACES):
            os.makedirs(f"{draft}{path_in_replica}", _FOLDER_MODE)
        if self.overlay is not None:
            overlays.make(self.overlay, f"{draft}/{_OVERLAY}", f"{home}/.local")
        if self.home and not self.shown:  # without mounts it has the machine's /etc/profile
            _write_profile(home, path)
        if owner is not None:
            _give(draft, owner)
        try:
            os.rename(draft, self.folder)
        except OSError as error:
            remove_tree(draft)
            if error.errno not in _EXISTS_ERRNOS:
                raise


def machine_of(
    mode: str, folder: AttemptFolder, task_name: str, metrics: str, tools: ReplicaTools
) -> ReplicaMachine:
    """Return the machine of a replica; ``metrics`` is the folder of its reports, or empty."""
    own = f"{folder.machines}/{task_name}"
    home_folder = f"{own}{HOME}"
    home = _home_of(mode, home_folder)
    user_base = f"{home or home_folder}/.local"
    overlay = tools.facts and PythonOverlay(f"{own}/{_OVERLAY}", user_base, tools, tools.facts)
    return ReplicaMachine(
        folder=own,
        home=home,
        shown=tuple(_list_mounts(mode, own, metrics)),
        overlay=overlay,
        tools=tools,
    )


def _write_profile(home: str, path: str) -> None:
    """Write a profile that restores PATH in login shells after the machine's ``/etc/profile``."""
    with open(f"{home}/.profile", "w", encoding="utf-8") as file:
        file.write(f"PATH={shlex.quote(path)}\nexport PATH\n")


def _home_of(mode: str, folder: str) -> str:
    homes = {USERS: HOME, SANDBOX: HOME, LANDLOCK: folder, NONE: ""}
    return homes[mode]


def _list_mounts(mode: str, own: str, metrics: str) -> Iterator[tuple[str, str]]:
    if mode not in {USERS, SANDBOX} and not mounts.allowed():
        return
    if mode in {USERS, SANDBOX}:
        yield f"{own}{HOME}", HOME
    yield metrics or f"{own}{HYPERTUNE}", HYPERTUNE
    yield from ((f"{own}{path}", path) for path in PLACES)


def _give(folder: str, owner: tuple[int, int]) -> None:
    """Change the owner of a folder and its content; only this process has written to it."""
    for path, folders, files in os.walk(folder):
        os.chown(path, *owner)
        for name in (*folders, *files):
            os.chown(os.path.join(path, name), *owner, follow_symlinks=False)
