"""The command ``trainshed-reducer``: sums gradients for the workers of one job until it ends (R16).

A service starts it for every reducer of a job and ends it with the job.  By hand it runs on any
machine that has the token of a job.  Whatever is wrong with its surroundings is one line on stderr
and exit status 2, before any worker could connect.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

from trainshed.reduction.crew import run_all
from trainshed.reduction.endings import Endings
from trainshed.reduction.listening import listeners_of
from trainshed.reduction.process import serve
from trainshed.reduction.settings import Misplaced, ReducerSettings, settings_of
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.places import token_of

_UNUSABLE = 2


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run a reducer to its end; its exit status."""
    settings = settings_of(argv)
    try:
        return _run(settings, environ)
    except (Misplaced, ReductionError) as fault:
        sys.stderr.write(f"trainshed-reducer: {fault}\n")
        return _UNUSABLE


def _run(settings: ReducerSettings, environ: Mapping[str, str]) -> int:
    if importlib.util.find_spec("numpy") is None:
        raise Misplaced(
            f"{sys.executable} has no numpy, which sums: pip install 'trainshed[reduction]'"
        )
    token = token_of(environ)
    place = settings.place(environ)
    endings = Endings(children=settings.procs > 1)  # whoever can connect finds one that ends well
    listeners = listeners_of(place, settings.procs)
    if settings.procs == 1:
        return serve(listeners[0], settings, token, endings=endings, index=place.index)
    return run_all(listeners, settings, token, endings=endings, index=place.index)
