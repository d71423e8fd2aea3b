"""Makes a virtual environment for each replica, above the environment that its job is mapped to.

Packages that a program installs go into that environment: with pip, ``pip install --user``,
``sys.executable -m pip`` or in a virtual environment on top.  The mapped environment does not
change, and the next attempt begins without these packages.  If pip may not change an installed
package, it installs the other version into the overlay.

The import path is: the overlay, the user's packages, the mapped environment, the interpreter's own.
Mounting an overlayfs over the environment was rejected: it works only where a replica has mounts,
its files would belong to another user, and ``pip --user`` refuses to work in a virtual environment.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from trainshed.engines.environments.replica_tools import InterpreterFacts, ReplicaTools

_FOLDER_MODE: Final = 0o700
#: Python reads any value but "true" as false; pip refuses ``--user`` only for "false".
_HIDES_BASE: Final = "no"
_PATH_FILE: Final = "trainshed-overlay.pth"


class PythonOverlay(NamedTuple):
    """The folder of an overlay, and the paths in it."""

    folder: str
    user_base: str
    """The folder of ``pip install --user``, as the replica sees it."""
    tools: ReplicaTools
    facts: InterpreterFacts

    @property
    def python(self) -> str:
        """The interpreter of the replica's programs."""
        return f"{self.folder}/bin/python"

    @property
    def path(self) -> tuple[str, ...]:
        """The first folders of PATH."""
        return (f"{self.folder}/bin", f"{self.user_base}/bin", self.tools.bin)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that set pip's target folder and turn off some of its warnings.

        ``VIRTUAL_ENV`` is not set: with it, gcloud and gsutil would import from the environment.
        """
        return {
            "PYTHONUSERBASE": self.user_base,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_WARN_SCRIPT_LOCATION": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }


def make(overlay: PythonOverlay, folder: str, user_base: str) -> None:
    """Write an overlay to ``folder`` and ``user_base``, paths on the machine.  Raises OSError."""
    facts = overlay.facts
    own, user = _site_of(folder, facts), _site_of(user_base, facts)
    for path in (f"{folder}/bin", own, user):
        os.makedirs(path, _FOLDER_MODE)
    os.symlink("lib", f"{folder}/lib64")
    for name in ("python", "python3", f"python{facts.version}"):
        os.symlink(facts.program, f"{folder}/bin/{name}")
    _write(f"{folder}/pyvenv.cfg", _compose_settings(facts))
    _write(f"{own}/{_PATH_FILE}", _compose_path_lines(_site_of(overlay.user_base, facts), overlay))
    _write(f"{user}/{_PATH_FILE}", _compose_path_lines(_site_of(overlay.folder, facts), overlay))


def _compose_settings(facts: InterpreterFacts) -> Iterator[str]:
    yield f"home = {facts.home}"
    yield f"include-system-site-packages = {'true' if facts.shows_base else _HIDES_BASE}"
    yield f"version = {facts.version}"


def _compose_path_lines(first: str, overlay: PythonOverlay) -> Iterator[str]:
    """Yield the lines of a path file: another folder, the environment's folders, pip's folder."""
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
