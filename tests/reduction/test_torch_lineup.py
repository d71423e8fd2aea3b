"""A group of one rank has nothing to reduce; a rank that leaves takes nobody's sums along."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist

from trainshed_trainer.reduction import torch_group
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_group import FORWARDED, ReductionGroup, confirm
from trainshed_trainer.reduction.torch_lineup import Lineup


class Recorder:
    """Whatever a lineup has; it keeps what it was asked for."""

    def __init__(self, name, calls):
        self._name, self._calls = name, calls

    def __getattr__(self, verb):
        return lambda *args: self._calls.append((self._name, verb, *args))


@pytest.mark.parametrize("how", ["shutdown", "abort"])
def test_a_worker_that_reduces_too_leaves_last(how):
    """Others may not have all sums from it yet when it has all of its own."""
    calls = []
    group = ReductionGroup(dist.HashStore(), 0, 1, timeout=dist.constants.default_pg_timeout)
    exchange, report, own = (Recorder(name, calls) for name in ("exchange", "report", "own"))
    group.lineup = Lineup(exchange, None, None, own, None, [report])
    getattr(group, how)()
    group.shutdown()
    linger = 10.0 if how == "shutdown" else 0.0
    assert calls == [
        ("exchange", "close"),
        ("report", "close"),
        ("own", "wait_over", linger),
        ("own", "close"),
    ]


class LateExchange:
    """An exchange whose sums come when the test lets them; ``close`` records what was over."""

    def __init__(self):
        self.dones, self.works, self.over_at_close = [], [], []

    def failed(self):
        return None

    def allreduce(self, _, *, average, done):
        assert not average
        self.dones.append(done)

    def end_rounds(self):
        while self.dones:
            self.dones.pop()(None)

    def close(self):
        self.over_at_close = [work.is_completed() for work in self.works]


@contextmanager
def late_group():
    """A group of one rank whose all-reduces end with ``group.lineup.exchange.end_rounds()``.

    Not a fixture, which would hold the group, and with it gloo's descriptors, beyond the test.
    """
    exchange = LateExchange()
    group = ReductionGroup(dist.HashStore(), 0, 1, timeout=dist.constants.default_pg_timeout)
    group.lineup = Lineup(exchange, None, None, None, None, [])
    group._routing = SimpleNamespace(to_reducers=lambda _: True)
    exchange.works = [group.allreduce([torch.ones(3)]) for _ in range(2)]
    yield group
    exchange.end_rounds()
    group.shutdown()


def test_a_worker_that_leaves_gets_the_sums_that_its_program_has_not_waited_for():
    """As with nccl and gloo: the round that one rank drops does not fail on another."""
    with late_group() as group:
        exchange = group.lineup.exchange
        timer = threading.Timer(0.2, exchange.end_rounds)
        timer.start()
        group.shutdown()
        assert exchange.over_at_close == [True, True]
        timer.join()


def test_a_worker_that_aborts_waits_for_no_sums():
    with late_group() as group:
        group.abort()
        assert group.lineup.exchange.over_at_close == [False, False]


def test_a_world_of_one_works_like_any_other():
    dist.init_process_group("reduction", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert isinstance(dist.group.WORLD, ReductionGroup)
        tensor = torch.full((300_000,), 3.0)
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        assert tensor.unique().tolist() == [3.0]
        dist.barrier()
        confirm()
    finally:
        dist.destroy_process_group()


def test_every_collective_is_passed_on_in_python():
    """Torch's own trampolines hold the interpreter's lock meanwhile, and gloo's threads want it."""
    passed_on = [name for name in FORWARDED if hasattr(dist.ProcessGroup, name)]
    assert {"allgather", "broadcast", "barrier", "send", "recv"} < set(passed_on)
    for name in (*passed_on, "allreduce"):
        assert name in vars(ReductionGroup), name


def test_only_a_group_with_reducers_can_be_confirmed():
    with pytest.raises(ReductionError, match='needs a group of backend="reduction"'):
        confirm()


@pytest.mark.parametrize("fault", [OSError, KeyboardInterrupt, ReductionError])
def test_whatever_ends_the_forming_of_a_group_ends_the_group(monkeypatch, fault):
    left = []

    def fails(*_, **__):
        raise fault("no route")

    monkeypatch.setattr(torch_group, "form_lineup", fails)
    monkeypatch.setattr(ReductionGroup, "shutdown", lambda self: left.append(self.rank()))
    options = SimpleNamespace(
        store=dist.HashStore(),
        group_rank=0,
        group_size=1,
        timeout=dist.constants.default_pg_timeout,
        global_ranks_in_group=[],
    )
    with pytest.raises(fault):
        torch_group.create(options)
    assert left == [0]
