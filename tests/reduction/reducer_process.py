"""A real ``trainshed-reducer`` for tests: its own process, on free ports of the loopback."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import psutil

from trainshed.engines.processes.ports import free_runs
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype

IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
HOST = "127.0.0.1"
TOKEN = "0123456789abcdef" * 4
COMMAND = (sys.executable, "-P", "-m", "trainshed.reduction")
#: Deadlines cost time only where something is broken.
DEADLINE_S = 120.0


class ReducerProcess:
    """One that is listening; its words are kept line by line."""

    def __init__(self, *flags, procs=1, environ=None, is_named=False):
        """``is_named``: the environment says where it listens, and no flag does."""
        self.port = free_runs((procs,))[0] if not is_named else None
        own = () if is_named else ("--host", HOST, "--port", str(self.port))
        self.lines = []
        self._is_silent = False
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [*COMMAND, *own, "--procs", str(procs), *flags],
            env={**os.environ, "TRAINSHED_REDUCTION_TOKEN": TOKEN, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait_for(lambda: sum("listening" in line for line in self.lines) == procs)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.children(), self.process]:
            with suppress(psutil.Error, ProcessLookupError):
                process.kill()
        self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        self.process.stdout.close()

    @property
    def addresses(self):
        """Where each of its processes says that it listens, by its number among all."""
        words = [line.split(": listening on ") for line in self.lines if "listening" in line]
        return {int(who.split()[1]): where for who, where in words}

    def children(self):
        with suppress(psutil.Error):
            return psutil.Process(self.process.pid).children()
        return []

    def end(self):
        """The exit status, once it has ended and everything that it said is read."""
        status = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return status

    def wait_for(self, is_met):
        with self._changed:
            self._changed.wait_for(lambda: is_met() or self._is_silent, DEADLINE_S)
            assert is_met(), self.lines

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()


def cluster_spec(addresses, index):
    pools = [{}, {}, {"containerSpec": {"imageUri": IMAGE}}]
    return json.dumps(
        {
            "cluster": {"workerpool0": ["10.1.1.1:2222"], "workerpool2": addresses},
            "task": {"type": "workerpool2", "index": index},
            "job": {"workerPoolSpecs": pools},
        }
    )


class Working:
    """A group of one worker, for as long as the test wants."""

    def __init__(self, reducers, token=TOKEN):
        self.client = Client.connect(
            reducers, rank=0, world=1, epoch=time.time_ns(), token=token.encode()
        )

    def sums(self):
        """Whether an all-reduce succeeds; the fault where it does not."""
        over, faults = threading.Event(), []
        self.client.allreduce(
            memoryview(bytearray(4096)),
            Dtype.FLOAT32,
            average=False,
            done=lambda fault: (faults.append(fault), over.set()),
        )
        assert over.wait(DEADLINE_S)
        return faults[0] or True


def sum_over(reducers, *, world, token=TOKEN, epoch=None):
    """What each of ``world`` workers gets for rank+1, summed by these reducers."""
    epoch = epoch or time.time_ns()
    sums, faults = {}, []

    def work(rank):
        values = np.full(10_000, rank + 1, dtype=np.float32)
        over = threading.Event()
        try:
            client = Client.connect(
                reducers, rank=rank, world=world, epoch=epoch, token=token.encode()
            )
            client.allreduce(
                memoryview(values).cast("B"),
                Dtype.FLOAT32,
                average=False,
                done=lambda fault: (faults.append(fault) if fault else None, over.set()),
            )
            assert over.wait(DEADLINE_S)
            client.close()
        except (ReductionError, OSError, AssertionError) as fault:
            faults.append(fault)
        sums[rank] = set(values.tolist())

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    if faults:
        raise faults[0]
    return sums
