"""The secret that the replicas of a reduction share.

The secret is made for one attempt and kept in a file: arguments, launch plans and stored documents
never have it.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainshed.files.server_files import PRIVATE, PUBLIC, write_first
from trainshed.launch.reduction_env import has_reducers, with_token_file
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import LaunchPlan

_TOKEN_BYTES: Final = 32
_TOKEN_FILE: Final = "reduction-token"  # noqa: S105  # a name, no secret
_FOLDER_MODE: Final = 0o700


def secret_path(spec: JobSpec, folder: str) -> str | None:
    """Return the path of the secret in a folder; None for a job that has no reducers."""
    return f"{folder}/{_TOKEN_FILE}" if has_reducers(spec) else None


def make_secret(path: Path, *, is_public: bool) -> None:
    """Make the secret of an attempt.  Raises OSError.

    An attempt that is planned again keeps its secret: its replicas may run already.  Containers run
    as other users, so that the file ``is_public`` for them: only the attempt's own folders lead to
    it.
    """
    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    secret = os.urandom(_TOKEN_BYTES).hex().encode()
    write_first(path, secret, PUBLIC if is_public else PRIVATE)


@contextmanager
def secret_in_run(spec: JobSpec, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """Yield the plan of a local run with a secret, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainshed-") as folder:
        is_contained = any(replica.container for replica in plan.replicas)
        path = secret_path(spec, folder)
        if path is not None:
            make_secret(Path(path), is_public=is_contained)
        binds = ((folder, folder),) if is_contained else ()
        yield with_token_file(replace(plan, binds=(*plan.binds, *binds)), path or "")
