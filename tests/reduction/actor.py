"""A worker or a reducer as a process of its own, and the process that forks them.

``actor.py FD`` waits on a Unix socket for descriptors: each is the line of one more actor, whose
first message says what it is.  Forked from here, where NumPy is loaded already, an actor begins
within milliseconds.  ``actor.py`` alone is one actor on its standard input and output.
"""

import ctypes
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported

import numpy as np

from trainshed_trainer.reduction import probing
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.reducer import Reducer

#: Values repeat after so many elements; sums of these are exact in any order.
PATTERN = 1000
#: After so many rounds a group is in the midst of its work.
GOING = 3
PR_SET_PDEATHSIG = 1
CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Line:
    """Messages to and from the test, one a line."""

    def __init__(self, reading, writing):
        self._reading = reading
        self._writing = writing

    def hear(self):
        """The next message; None when there are no more."""
        text = self._reading.readline()
        return json.loads(text) if text else None

    def say(self, **message):
        with suppress(BrokenPipeError, ConnectionResetError):
            self._writing.write(json.dumps(message) + "\n")
            self._writing.flush()


def main():
    if len(sys.argv) > 1:
        fork_actors(socket.socket(fileno=int(sys.argv[1])))
    else:
        act(Line(sys.stdin, sys.stdout))


def fork_actors(orders):
    """Until nobody gives orders any more; the kernel ends the actors with this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds, _, _ = socket.recv_fds(orders, 1, 1)
        if not data:
            return
        if os.fork():
            os.close(fds[0])
            continue
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        orders.close()
        line = socket.socket(fileno=fds[0])
        act(Line(line.makefile("r"), line.makefile("w")))
        os._exit(0)


def act(line):
    order = line.hear()
    if order:
        {"worker": work, "reducer": reduce}[order.pop("role")](line, order)


def reduce(line, order):
    """Reduce until the test has gone or says otherwise."""
    with socket.create_server((order["host"], 0)) as listener:
        reducer = Reducer(listener, order["token"].encode(), index=order["index"])
        reducer.start()
        line.say(pid=os.getpid(), address=reducer.address)
        line.hear()
        reducer.close()


def work(line, order):
    """Join, sum until it fails or is enough, and say how it ended."""
    if not order.pop("probes"):
        probing.SMALL, probing.LARGE, probing.LARGEST = 4 << 10, 64 << 10, 64 << 10
    summed = Summing(line, order)
    rounds, own = order.pop("rounds"), None
    host = order.pop("host")
    if order.pop("reduces"):
        listener = socket.create_server((host, 0))
        own = Reducer(listener, order["token"].encode(), index=order["rank"])
        own.start()
    line.say(pid=os.getpid(), address=own and own.address)
    addresses = line.hear()
    if addresses is None:
        return
    try:
        client = joined({**order, **addresses})
        line.say(joined=True)
        summed.until_it_ends(client, rounds)
    except ReductionError as error:
        line.say(error=str(error), culprit=error.culprit, at=time.monotonic(), **summed.counts())
    else:
        line.say(error=None, culprit=None, at=time.monotonic(), **summed.counts())
        client.close()
        if own:
            own.wait_over(10.0)


def joined(order):
    places = [tuple(address) for address in order.pop("reducers")]
    order["own"] = [tuple(address) for address in order["own"]]
    return Client.connect(places, **{**order, "token": order["token"].encode()})


class Summing:
    """Tensors whose sums are known, all of a round under way at once."""

    def __init__(self, line, order):
        self._line = line
        self._rank = order["rank"]
        self._factor = order["world"] * (order["world"] + 1) // 2
        sizes = order.pop("sizes")
        self._patterns = [(np.arange(size) % PATTERN).astype(np.float32) for size in sizes]
        self._tensors = [np.empty(size, np.float32) for size in sizes]
        self._scale = Scale() if order.pop("weighs", False) else None
        self.rounds = 0
        self.wrong = 0

    def counts(self):
        grown = self._scale.grown if self._scale else None
        return {"rounds": self.rounds, "wrong": self.wrong, "grown": grown}

    def until_it_ends(self, client, rounds):
        while rounds is None or self.rounds < rounds:
            self._fill()
            with self._scale or nullcontext():
                errors = self._sum(client)
            self._check(errors)
            self.rounds += 1
            if self.rounds == GOING:
                self._line.say(rounds=self.rounds)

    def _fill(self):
        for tensor, pattern in zip(self._tensors, self._patterns, strict=True):
            np.multiply(pattern, self._rank + 1, out=tensor)

    def _sum(self, client):
        ends = [End() for _ in self._tensors]
        for tensor, end in zip(self._tensors, ends, strict=True):
            view = memoryview(tensor).cast("B")
            client.allreduce(view, Dtype.FLOAT32, average=False, done=end)
        return [end.wait() for end in ends]

    def _check(self, errors):
        for tensor, pattern, error in zip(self._tensors, self._patterns, errors, strict=True):
            if not error and not np.array_equal(tensor, pattern * self._factor):
                self.wrong += 1
        for error in errors:
            if error:
                raise error


class Scale:
    """By how much this process has grown, at the most, while it reduced."""

    grown = 0

    def __enter__(self):
        try:
            CLEAR.write_text("5")  # forgets the peak
        except OSError:
            self.grown = None
        self._before = self._kb("VmRSS")

    def __exit__(self, *_):
        if self.grown is not None:
            self.grown = max(self.grown, 1024 * (self._kb("VmHWM") - self._before))

    def _kb(self, name):
        return int(re.findall(name + r":\s+(\d+) kB", STATUS.read_text())[0])


class End:
    """How an all-reduce ends."""

    def __init__(self):
        self._come = threading.Event()
        self._error = None

    def __call__(self, error):
        self._error = error
        self._come.set()

    def wait(self):
        self._come.wait()
        return self._error


if __name__ == "__main__":
    main()
