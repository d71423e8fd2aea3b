"""What a local run with reducers needs besides its plan: the shared secret, and torch's backend.

The service has a folder for each attempt, and gives every program the trainer library.  A local run
has no such folder, and the caller's Python is left alone unless the job has reducers.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.service.reducers import with_token
from trainshed.service.trainer_library import LIBRARY, TrainerLibrary


@contextmanager
def reducing(plan: LaunchPlan, python: str, data_dir: Path) -> Iterator[LaunchPlan]:
    """The plan of a job with reducers as it is run; nothing of the secret is left afterwards."""
    library = TrainerLibrary(data_dir / LIBRARY)

    def equipped(replica: ReplicaPlan) -> ReplicaPlan:
        found = library.variables(python, {**os.environ, **replica.env})
        return replace(replica, env={**replica.env, **found})

    with tempfile.TemporaryDirectory(prefix="trainshed-") as folder:
        whole = replace(plan, replicas=tuple(map(equipped, plan.replicas)))
        yield with_token(whole, Path(folder))
