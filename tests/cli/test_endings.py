import signal

import pytest

from trainshed.cli.local.endings import print_ending, state_of
from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.roles import Role


def ended(role=Role.WORKER, *, code=None, signum=None, by_us=False):
    return ReplicaExit(
        role=role,
        index=0,
        task_name=f"{role.value}-0",
        exit_code=code,
        signal=signum,
        seconds=1.26,
        stopped_by_us=by_us,
    )


@pytest.mark.parametrize(
    ("replica", "state"),
    [
        (ended(code=0), "succeeded"),
        (ended(code=3), "failed"),
        (ended(signum=signal.SIGKILL), "failed"),
        (ended(signum=signal.SIGTERM, by_us=True), "stopped"),
        (ended(code=0, by_us=True), "stopped"),
    ],
)
def test_a_replica_succeeded_failed_or_was_stopped(replica, state):
    assert state_of(replica) == state


def test_the_last_table_has_codes_signals_and_the_primarys_metric(capsys, tmp_path):
    replicas = (
        ended(Role.PRIMARY, code=0),
        ended(Role.PARAMETER_SERVER, signum=signal.SIGTERM, by_us=True),
        ended(Role.WORKER, signum=250),
    )
    outcome = Outcome(exit_code=0, replicas=replicas, message="primary-0 exited with code 0")
    print_ending(outcome, {"accuracy": 0.98765}, tmp_path)
    assert "output:" not in capsys.readouterr().out  # nothing was written
    (tmp_path / "model").touch()
    print_ending(outcome, {"accuracy": 0.98765}, tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "ROLE              REPLICA             EXIT        SECONDS  STATE      ACCURACY",
        "────────────────  ──────────────────  ──────────  ───────  ─────────  ────────",
        "primary           primary-0           0               1.3  succeeded    0.9877",
        "parameter server  parameter_server-0  SIGTERM         1.3  stopped",
        "worker            worker-0            signal 250      1.3  failed",
        "primary-0 exited with code 0",
        f"output: {tmp_path}",
    ]
