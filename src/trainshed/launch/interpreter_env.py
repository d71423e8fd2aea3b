"""PATH and PYTHONPATH of a replica that runs as a process of its machine."""

import os
from typing import Final

from trainshed.launch.context import Variables
from trainshed.launch.site import ProgramSite
from trainshed.model.trainer_contract import STEPS

_PYTHONPATH: Final = "PYTHONPATH"


def with_interpreter(env: Variables, site: ProgramSite) -> Variables:
    """Add PATH, and PYTHONPATH with the trainer library and the hooks, where they are needed.

    The job's own PATH wins.  Its own PYTHONPATH stands between the hooks and the library.
    """
    first = {} if site.path is None else {"PATH": site.path}
    hooks = site.hooks if STEPS in env else ""
    if site.library is None and not hooks:
        return {**first, **env}
    inherited = "" if site.library is None else site.python_path
    paths = (hooks, env.get(_PYTHONPATH, inherited), site.library)
    return {**first, **env, _PYTHONPATH: os.pathsep.join(filter(None, paths))}
