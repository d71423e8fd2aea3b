import errno
import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.support import cluster, plan_of, python_replica
from trainshed.model import success
from trainshed.model.attempt import ReplicaExit
from trainshed.model.exits import signal_name
from trainshed.model.roles import Role

PLAN = plan_of(cluster("", "", ""))
PRIMARY = PLAN.primary.task_name


def ended(number, code=0, *, signum=None, stopped=False):
    """The exit of the replica at a position of PLAN."""
    replica = PLAN.replicas[number]
    return ReplicaExit(
        role=replica.role,
        index=replica.index,
        task_name=replica.task_name,
        exit_code=None if signum else code,
        signal=signum,
        seconds=1.25,
        stopped_by_us=stopped,
    )


@pytest.mark.parametrize(
    ("exits", "code"),
    [
        ([], None),
        ([ended(1)], None),
        ([ended(1), ended(2)], None),
        ([ended(0)], 0),
        ([ended(0, 3)], 3),
        ([ended(1, 4)], 4),
        ([ended(1, 4), ended(0, 3)], 4),
        ([ended(0, 3), ended(1, 4)], 3),
        ([ended(2, signum=signal.SIGSEGV)], 128 + 11),
        ([ended(1, 4), ended(0)], 0),
        ([ended(1, 4, stopped=True)], None),
    ],
)
def test_the_primary_or_the_first_failure_decides(exits, code):
    end = success.job_end(PRIMARY, exits)
    assert (end and end.exit_code) == code


@given(st.lists(st.builds(ended, st.integers(0, 2), st.integers(0, 3), stopped=st.booleans())))
def test_a_job_succeeds_only_by_its_primary_and_fails_only_with_a_code_that_was_seen(exits):
    end = success.job_end(PRIMARY, exits)
    own = [e for e in exits if not e.stopped_by_us]
    if end is None:
        assert all(e.status == 0 and e.role is not Role.PRIMARY for e in own)
    elif end.exit_code == 0:
        assert end.decider.role is Role.PRIMARY
    else:
        assert end.exit_code in {e.status for e in own}


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (
            success.job_end(PRIMARY, [ended(2, 3)]),
            "worker-replica-1 exited with code 3 after 1.2 s: ValueError: bad",
        ),
        (
            success.job_end(PRIMARY, [ended(0, signum=signal.SIGSEGV)]),
            "master-replica-0 was killed by SIGSEGV after 1.2 s",
        ),
        (
            success.job_end(PRIMARY, [ended(0, signum=signal.SIGKILL)]),
            "master-replica-0 was killed by SIGKILL (out of memory?) after 1.2 s",
        ),
        (success.job_end(PRIMARY, [ended(0)]), "master-replica-0 exited with code 0 after 1.2 s"),
        (success.interrupted(signal.SIGINT), "stopped by SIGINT"),
        (
            success.output_gone(BrokenPipeError()),
            "the output was closed by its reader; the job was ended",
        ),
        (
            success.output_gone(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
            "the output cannot be written: No space left on device; the job was ended",
        ),
    ],
)
def test_the_message_names_the_replica_its_end_and_its_last_words(end, text):
    words = "ValueError: bad" if end.exit_code in {0, 3} else ""
    assert success.message(end, words) == text


def test_a_real_time_signal_has_a_name_too():
    assert signal_name(50) == "signal 50"


def test_replicas_beside_servers_are_not_waited_for():
    servers = plan_of([*cluster("", ""), python_replica(Role.PARAMETER_SERVER, 0, "")])
    assert success.may_end_together(r.role for r in PLAN.replicas)
    assert not success.may_end_together(r.role for r in servers.replicas)


def test_workers_beside_reducers_are_waited_for_and_reducers_are_not():
    beside = plan_of([*cluster("", ""), python_replica(Role.REDUCER, 0, "")])
    assert success.may_end_together(r.role for r in beside.replicas)
    awaited = [r.role for r in beside.replicas if success.ends_by_itself(r.role)]
    assert awaited == [Role.PRIMARY, Role.WORKER]
