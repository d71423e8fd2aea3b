"""When a launcher may end: after its commands, or after wardens that a cluster has started."""

import socket
from types import SimpleNamespace

import pytest

from trainshed.engines.processes.secret import new_secret
from trainshed.engines.supervise.attempt import RemoteContext
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.spec import StepRule
from trainshed.engines.warden import compose, teardown
from trainshed.engines.warden.launcher_variables import SECRET
from warden.attempts import KEY, plan_of, workers
from warden.pods import free_port

OVER = Order(0.0, "end")


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def make(loop, tmp_path, monkeypatch):
    monkeypatch.setenv(SECRET, new_secret())

    def make_gang(**more):
        folder = AttemptFolder(tmp_path)
        spec = compose.spec_of(plan_of(workers("", 2)), KEY, folder, **more)
        output = SimpleNamespace(on_hold=lambda _: None, note=lambda *_: None)
        context = RemoteContext(loop, Children(), output, folder, spec, (64, 64), lambda *_: None)
        return teardown.make(context)

    return make_gang


def test_a_launcher_waits_for_no_warden_that_has_not_come(make):
    gang, ending = make(port=free_port())
    assert not gang.gather()
    assert not ending.may_close
    ending.begin(OVER)
    assert ending.may_close
    ending.close()


def test_a_launcher_takes_the_secret_out_of_its_environment(make, monkeypatch):
    gang, _ = make(port=free_port())
    with pytest.raises(KeyError):
        monkeypatch.delenv(SECRET)
    assert not gang.gather()
    assert gang.fault is None
    gang.close()


def test_a_port_in_use_is_the_fault_of_the_attempt(make):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        gang, ending = make(port=port)
        assert not gang.gather()
        assert gang.fault == f"cannot listen for wardens on port {port}: Address already in use"
        assert gang.is_worth_another_try
        ending.begin(OVER)
        assert ending.may_close


def test_a_launcher_with_commands_waits_for_them_alone(make):
    _, ending = make(steps=(StepRule(("true",), 0, 2),))
    assert ending.may_close
