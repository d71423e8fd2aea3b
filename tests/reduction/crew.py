"""Groups whose workers and reducers are threads of this process, and what their sums must be."""

import contextlib
import socket
import threading
import time

import torch

from trainshed_trainer.reduction import probing
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.reducer import Reducer

HOST = "127.0.0.1"
TOKEN = b"0123456789abcdef" * 2
#: Deadlines cost time only where something is broken.
DEADLINE_S = 120.0
TORCH = {
    Dtype.FLOAT32: torch.float32,
    Dtype.FLOAT16: torch.float16,
    Dtype.BFLOAT16: torch.bfloat16,
}


class Wait:
    """The end of one all-reduce, as its caller is told of it."""

    def __init__(self):
        self._come = threading.Event()
        self.calls = []

    def __call__(self, error):
        self.calls.append(error)
        self._come.set()

    def error(self):
        """The error that it ended with, or None."""
        assert self._come.wait(DEADLINE_S), "an all-reduce has neither ended nor failed"
        return self.calls[0]

    def result(self):
        if error := self.error():
            raise error


class Noticing(threading.Event):
    """An event that tells whether anyone waits for it."""

    waited_for = False

    def wait(self, timeout=None):
        self.waited_for = True
        return super().wait(timeout)


class Crew:
    """Ranks 0, 1, ... that are connected; made by `crew`."""

    def __init__(self, reducers, own):
        self.reducers = reducers
        self.own = own
        self.clients = []
        self.epoch = time.time_ns()

    def begin(self, tensors, *, average=False):
        """Let every rank give its tensor; how each ends."""
        return [
            give(client, tensor, average=average)
            for client, tensor in zip(self.clients, tensors, strict=True)
        ]

    def reduce(self, tensors, *, average=False):
        """Sum tensors in place, one of each rank."""
        for wait in self.begin(tensors, average=average):
            wait.result()
        return tensors

    def close(self):
        together([client.close for client in self.clients])


def bytes_of(tensor):
    """A tensor's own memory."""
    return memoryview(tensor.view(torch.uint8).numpy()).cast("B")


def give(client, tensor, *, average=False):
    """Begin an all-reduce of a tensor in place; how it ends."""
    wait = Wait()
    dtype = next(kind for kind, name in TORCH.items() if name == tensor.dtype)
    client.allreduce(bytes_of(tensor), dtype, average=average, done=wait)
    return wait


def listener():
    sock = socket.socket()
    sock.bind((HOST, 0))
    return sock


def together(calls, seconds=DEADLINE_S):
    """Call all at once, each in a thread; what each returned or raised."""
    answers = [None] * len(calls)

    def run(place):
        try:
            answers[place] = calls[place]()
        except Exception as error:  # noqa: BLE001 - told to who asked
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a call has not returned"
    return answers


def good(answers):
    """What calls returned, if none of them raised."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextlib.contextmanager
def reducers(count, **settings):
    """So many reducers, which end with the block."""
    started = []
    try:
        for index in range(count):
            started.append(Reducer(listener(), TOKEN, index=index, **settings))
            started[-1].start()
        yield started
    finally:
        together([reducer.close for reducer in started])


def connecting(pool, rank, world, *, epoch, **settings):
    """A call that joins as one rank."""
    addresses = [reducer.address for reducer in pool]
    settings = {"token": TOKEN, "timeout": 60.0, **settings}
    return lambda: Client.connect(addresses, rank=rank, world=world, epoch=epoch, **settings)


@contextlib.contextmanager
def joined(pool, world, *, own=(), epoch=None, **settings):
    """A group at reducers that are there already."""
    team = Crew(pool, own)
    team.epoch = epoch or team.epoch
    settings["own"] = [reducer.address for reducer in own]
    calls = [connecting(pool, rank, world, epoch=team.epoch, **settings) for rank in range(world)]
    answers = together(calls)
    team.clients = [answer for answer in answers if isinstance(answer, Client)]
    try:
        good(answers)
        yield team
    finally:
        team.close()


@contextlib.contextmanager
def crew(world, pool=1, *, hybrid=False, timeout=60.0, **settings):
    """A group of its own; ``hybrid``: the workers reduce too."""
    with (
        reducers(pool, timeout=timeout, **settings) as serving,
        reducers(world if hybrid else 0, timeout=timeout) as own,
        joined(serving, world, own=own, timeout=timeout) as team,
    ):
        yield team


def drawn(rank, count, dtype, seed=0):
    """A tensor of many magnitudes, so that another order of summing has other bits."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    exponents = torch.randint(-8, 8, (count,), generator=generator)
    values = torch.randn(count, generator=generator) * 2.0**exponents
    return values.to(dtype)


def expected(tensors, *, average=False):
    """Summed in the order of the ranks in 32 bits, rounded once."""
    total = tensors[0].float()
    for tensor in tensors[1:]:
        total = total + tensor.float()
    if average:
        total = total / len(tensors)
    return total.to(tensors[0].dtype)


def same_bits(one, other):
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def probe_little(monkeypatch):
    """Form groups quickly: what their links can do is not asked here."""
    monkeypatch.setattr(probing, "SMALL", 4 << 10)
    monkeypatch.setattr(probing, "LARGE", 64 << 10)
    monkeypatch.setattr(probing, "LARGEST", 64 << 10)


def soon(true, seconds=DEADLINE_S):
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it has not come to that"
        time.sleep(0.01)
