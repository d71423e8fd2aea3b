"""The exit status of a warden that is the first process of a container."""

import signal

import pytest

from trainshed.engines.warden.exit_status import WardenEnd, choose_status
from trainshed.model.attempt import ReplicaExit
from trainshed.model.roles import Role


def ended(*, stopped_by_us=False, **how):
    return ReplicaExit(
        role=Role.WORKER, index=0, task_name="worker-0", exit_code=how.get("exit_code"),
        signal=how.get("signal"), seconds=1.0, stopped_by_us=stopped_by_us,
    )  # fmt: skip


OWN = ended(exit_code=7)
STOPPED = ended(signal=signal.SIGTERM, stopped_by_us=True)


@pytest.mark.parametrize(
    ("replica_exit", "is_dismissed", "is_success", "status"),
    [
        (ended(exit_code=0), True, True, 0),
        (OWN, True, False, 7),
        (OWN, True, True, 7),
        (ended(signal=signal.SIGSEGV), True, False, 139),
        (STOPPED, True, False, 143),
        (STOPPED, True, True, 0),
        # its launcher is lost
        (ended(exit_code=0), False, False, 1),
        (STOPPED, False, False, 1),
        # its program never started
        (None, True, False, 1),
        (None, True, True, 1),
        (None, False, False, 1),
    ],
)
def test_the_status(replica_exit, is_dismissed, is_success, status):
    assert choose_status(WardenEnd(replica_exit, is_dismissed, is_success)) == status
