"""What the exchanges of a local run came to: asked for in its plan, read when it is over."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from trainshed.engines.local.attempts.reduction import report_at, report_env
from trainshed.launch.reduction_env import has_reducers
from trainshed.planning.achieved import Achieved, achieved
from trainshed.service.local_run import Prepared

_FILE = "reduction.json"


@dataclass(frozen=True, slots=True)
class Reporting:
    """A prepared run whose workers are asked for a report."""

    prepared: Prepared
    path: str | None

    def achieved(self) -> Achieved | None:
        """What it came to beside what its links promise; None without a report."""
        found = report_at(self.path) if self.path else None
        return achieved(found) if found else None


@contextmanager
def reporting(prepared: Prepared) -> Iterator[Reporting]:
    """Ask the workers of a run with reducers for a report; the place is gone afterwards."""
    plan = prepared.plan
    if not has_reducers(plan):
        yield Reporting(prepared, None)
        return
    with TemporaryDirectory(prefix="trainshed-reduction-") as folder:
        path = str(Path(folder) / _FILE)
        replicas = tuple(
            replace(each, env={**each.env, **report_env(plan, each, path)})
            for each in plan.replicas
        )
        yield Reporting(replace(prepared, plan=replace(plan, replicas=replicas)), path)
