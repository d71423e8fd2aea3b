"""A virtual environment of a replica's own, above the environment that its job is mapped to.

What a program installs lands there: with pip, ``pip install --user``, ``sys.executable -m pip`` or
in a virtual environment on top.  The mapped environment stays as it is, and the next attempt begins
without.  pip itself replaces packages above those of an environment that it may not change.

The import path is: the overlay, the user's packages, the mapped environment, the interpreter's own.
Mounting an overlayfs over the environment was rejected: it exists only where a replica has mounts,
its files belong to others there, and ``pip --user`` refuses to work in a virtual environment.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from trainshed.engines.environments.replica_tools import InterpreterFacts, ReplicaTools

_FOLDER_MODE: Final = 0o700
#: A value that is not "true" for Python, and not "false" for pip, which refuses ``--user`` there.
_HIDES_BASE: Final = "no"
_PATH_FILE: Final = "trainshed-overlay.pth"


class PythonOverlay(NamedTuple):
    """The folder of an overlay, and its parts."""

    folder: str
    user_base: str
    """The folder of ``pip install --user``, as the replica sees it."""
    tools: ReplicaTools
    facts: InterpreterFacts

    @property
    def python(self) -> str:
        """The interpreter that the replica's programs run in."""
        return f"{self.folder}/bin/python"

    @property
    def path(self) -> tuple[str, ...]:
        """The folders with which PATH begins."""
        return (f"{self.folder}/bin", f"{self.user_base}/bin", self.tools.bin)

    @property
    def variables(self) -> dict[str, str]:
        """Variables that tell pip where to write and what to leave out.

        Not ``VIRTUAL_ENV``: gcloud and gsutil would import from the environment by it.
        """
        return {
            "PYTHONUSERBASE": self.user_base,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_WARN_SCRIPT_LOCATION": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }


def make(overlay: PythonOverlay, folder: str, user_base: str) -> None:
    """Write an overlay into ``folder``, and into ``user_base`` as we see it.  Raises OSError."""
    facts = overlay.facts
    own, user = _site_of(folder, facts), _site_of(user_base, facts)
    for path in (f"{folder}/bin", own, user):
        os.makedirs(path, _FOLDER_MODE)
    os.symlink("lib", f"{folder}/lib64")
    for name in ("python", "python3", f"python{facts.version}"):
        os.symlink(facts.program, f"{folder}/bin/{name}")
    _write(f"{folder}/pyvenv.cfg", _settings(facts))
    _write(f"{own}/{_PATH_FILE}", _lines(_site_of(overlay.user_base, facts), overlay))
    _write(f"{user}/{_PATH_FILE}", _lines(_site_of(overlay.folder, facts), overlay))


def _settings(facts: InterpreterFacts) -> Iterator[str]:
    yield f"home = {facts.home}"
    yield f"include-system-site-packages = {'true' if facts.shows_base else _HIDES_BASE}"
    yield f"version = {facts.version}"


def _lines(first: str, overlay: PythonOverlay) -> Iterator[str]:
    """Of a path file: one more folder, then the environment with its own path files, then pip's."""
    yield first
    for site in overlay.facts.sites:
        yield f"import site, sys; {site!r} in sys.path or site.addsitedir({site!r})"
    if overlay.tools.site:
        yield overlay.tools.site


def _site_of(prefix: str, facts: InterpreterFacts) -> str:
    return f"{prefix}/lib/python{facts.version}/site-packages"


def _write(path: str, lines: Iterator[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
