"""The interpreter, PATH and trainer library of the program of each role."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainshed.engines.base import Traits
from trainshed.launch.site import ProgramSite
from trainshed.launch.step_hooks import asks_for_hooks
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.service.starts.images import Images, StandIn
from trainshed.service.starts.interpreters import TrainerLibrary

#: The folder of the library that switches the hooks on.
_HOOKS: Final = "trainshed_trainer/hooks/site"


class ProgramSites:
    """Finds the sites of programs on this machine, or as an engine describes its nodes."""

    def __init__(self, library: TrainerLibrary, environ: Mapping[str, str]) -> None:
        """``environ`` is the server's environment."""
        self._library = library
        self._environ = environ

    def find(
        self, spec: JobSpec, by_role: Mapping[Role, StandIn], traits: Traits, images: Images
    ) -> dict[Role, ProgramSite]:
        """Return the site of each role's program, and that of reducers; changes no file."""
        sites = {
            role: self._find(stand_in.python, traits, images, has_hooks=asks_for_hooks(spec, role))
            for role, stand_in in by_role.items()
            if not stand_in.is_container
        }
        return {**sites, Role.REDUCER: ProgramSite(python=traits.python, library=traits.library)}

    def show_library(self, sites: Mapping[Role, ProgramSite], traits: Traits) -> None:
        """Make the folder of the trainer library if a program of this machine needs it.

        Raises OSError.
        """
        if traits.library is None and any(site.library or site.hooks for site in sites.values()):
            self._library.shown()

    def library(self, traits: Traits) -> str:
        """Return the folder in which replicas of an engine find the trainer library."""
        return traits.library or str(self._library.folder)

    def _find(self, python: str, traits: Traits, images: Images, *, has_hooks: bool) -> ProgramSite:
        if traits.library is None:
            library = self._library.path_for(python)
            python_path = self._environ.get("PYTHONPATH", "")
            root = str(self._library.folder)
        else:
            library = None if images.has_trainer(python) else traits.library
            python_path, root = "", traits.library
        return ProgramSite(
            python=python,
            path=self._path(python, traits),
            library=library,
            python_path=python_path,
            hooks=f"{root}/{_HOOKS}" if has_hooks else "",
        )

    def _path(self, python: str, traits: Traits) -> str:
        """Return the PATH of a program; another machine does not get the server's PATH."""
        if traits.path is not None:
            folder = str(Path(python).parent) if "/" in python else ""
            return os.pathsep.join(filter(None, (folder, traits.path)))
        folder = str(Path(shutil.which(python) or python).parent)
        return os.pathsep.join(filter(None, (folder, self._environ.get("PATH", ""))))
