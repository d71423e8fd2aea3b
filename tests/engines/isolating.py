"""Isolation for engines of tests: a mode that works here, or a reason to skip."""

from pathlib import Path

import pytest

from trainshed.engines.isolation.choose import try_isolation
from trainshed.engines.isolation.compose import Isolation

UIDS = (200_000, 200_099)


def isolation_of(mode, *hidden):
    """The walls of a mode, which hide these folders."""
    if why := try_isolation(mode, UIDS[0]):
        pytest.skip(f"isolation {mode} does not work here: {why}")
    return Isolation(mode, UIDS, tuple(str(Path(folder).absolute()) for folder in hidden))
