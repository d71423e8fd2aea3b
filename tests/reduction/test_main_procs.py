"""A reducer of several processes: they begin together, sum together and end together."""

import os
import signal

import psutil
import pytest

from reduction.reducer_process import DEADLINE_S, HOST, ReducerProcess, Working, sum_over


def places(reducer, procs):
    return [(HOST, reducer.port + proc) for proc in range(procs)]


def test_each_process_has_a_port_and_a_share():
    with ReducerProcess(procs=2) as reducer:
        assert sorted(reducer.addresses.values()) == [
            f"{HOST}:{reducer.port}",
            f"{HOST}:{reducer.port + 1}",
        ]
        assert sum_over(places(reducer, 2), world=2) == {0: {3.0}, 1: {3.0}}


def test_the_job_s_signal_ends_all_and_is_no_failure():
    with ReducerProcess(
        procs=3,
    ) as reducer:
        children = reducer.children()
        assert len(children) == 3
        reducer.process.terminate()
        assert reducer.end() == 0
        assert sum("ends: received SIGTERM" in line for line in reducer.lines) == 3
        assert not psutil.wait_procs(children, DEADLINE_S)[1]


def test_workers_may_finish_their_step_when_the_job_is_told_to_end():
    with ReducerProcess(procs=2) as reducer:
        working = Working(places(reducer, 2))
        reducer.process.terminate()
        reducer.wait_for(lambda: sum("until they leave" in line for line in reducer.lines) == 2)
        assert working.sums() is True
        working.client.close()
        assert reducer.end() == 0


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_one_that_is_killed_ends_the_others_and_its_code_is_theirs(victim):
    with ReducerProcess(procs=3) as reducer:
        children = reducer.children()
        os.kill(children[victim].pid, signal.SIGKILL)
        assert reducer.end() == 128 + signal.SIGKILL
        assert any("has ended with the exit status 137" in line for line in reducer.lines)
        assert not psutil.wait_procs(children, DEADLINE_S)[1]


def test_none_outlives_the_process_that_has_started_it():
    with ReducerProcess(procs=2) as reducer:
        children = reducer.children()
        reducer.process.kill()
        assert reducer.end() == -signal.SIGKILL
        assert not psutil.wait_procs(children, DEADLINE_S)[1]
        assert (
            sum("the process that started this reducer has ended" in line for line in reducer.lines)
            == 2
        )


def test_one_that_stands_still_is_not_waited_for():
    """Stopped, it cannot end when it is asked to; the others have ended before."""
    with ReducerProcess(procs=2) as reducer:
        still, _ = children = reducer.children()
        still.suspend()
        reducer.process.terminate()
        assert reducer.end() == 0
        assert not psutil.wait_procs(children, DEADLINE_S)[1]


def test_processes_that_nobody_uses_end_together():
    with ReducerProcess("--idle-timeout", "0.2", procs=2) as reducer:
        assert reducer.end() == 0


def test_a_port_that_is_taken_starts_none():
    with ReducerProcess() as first, pytest.raises(AssertionError, match="is in use"):
        ReducerProcess("--port", str(first.port - 1), procs=2)
