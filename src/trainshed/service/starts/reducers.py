"""How the reducers of an attempt are run, and the secret that they share (R16).

A reducer is our own program, so it runs in an interpreter that has us, whatever its image is, and
in no container.  The secret is made for one attempt and kept in a file: arguments, launch plans and
stored documents never have it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainshed.files.server_files import PRIVATE, PUBLIC, write_first
from trainshed.launch.reduction_env import has_reducers, with_token_file
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

#: What is sent for the name of the program, behind an interpreter: that looks for modules among
#: its own packages and not in the folder of the job (-P).
_COMMAND: Final = ("-P", "-m", "trainshed.reduction")
_TOKEN_BYTES: Final = 32
_TOKEN_FILE: Final = "reduction-token"  # noqa: S105  # a name, no secret
_FOLDER_MODE: Final = 0o700


def started_here(replica: ReplicaPlan, python: str = sys.executable) -> ReplicaPlan:
    """A replica that is a reducer, with the command that starts it; others as they are."""
    if replica.role is not Role.REDUCER:
        return replica
    return replace(replica, argv=(python, *_COMMAND, *replica.argv[1:]))


def with_token(plan: LaunchPlan, folder: Path, shown: str = "") -> LaunchPlan:
    """The plan of an attempt whose replicas know its secret, if they share one.

    The file is made in ``folder``, which containers of the attempt see too; replicas elsewhere see
    it as ``shown``.  An attempt that is
    planned again keeps its secret: its replicas may run already.  Raises OSError.
    """
    if not has_reducers(plan):
        return plan
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    path = folder / _TOKEN_FILE
    # containers run as other users; nobody else gets into the folders of attempts
    mode = PUBLIC if any(replica.container for replica in plan.replicas) else PRIVATE
    write_first(path, os.urandom(_TOKEN_BYTES).hex().encode(), mode)
    return with_token_file(plan, f"{shown or folder}/{_TOKEN_FILE}")


@contextmanager
def reducing(plan: LaunchPlan, python: str, data_dir: Path) -> Iterator[LaunchPlan]:
    """The plan of a job as it is run; nothing of its reducers' secret is left afterwards."""
    if not has_reducers(plan):
        yield plan
        return
    # what they import takes longer than most jobs need to start, and few have reducers
    import tempfile  # noqa: PLC0415  # see above

    from trainshed.service.starts.interpreters import LIBRARY, TrainerLibrary  # noqa: PLC0415  # see above

    library = TrainerLibrary(data_dir / LIBRARY)

    def equipped(replica: ReplicaPlan) -> ReplicaPlan:
        found = library.variables(python, replica.env, os.environ)
        return replace(replica, env={**replica.env, **found})

    with tempfile.TemporaryDirectory(prefix="trainshed-") as folder:
        shown = ((folder, folder),) if any(each.container for each in plan.replicas) else ()
        replicas = tuple(map(equipped, plan.replicas))
        whole = replace(plan, replicas=replicas, binds=(*plan.binds, *shown))
        yield with_token(whole, Path(folder))
