"""Groups of real processes, for tests that kill, stop and cut them off."""

import contextlib
import json
import os
import random
import secrets
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

ACTOR = Path(__file__).parent / "actor.py"
HOST = "127.0.0.1"
#: Deadlines cost time only where something is broken.
DEADLINE_S = 120.0
#: ``TRAINSHED_CHAOS=full`` asks for ten times as much of what is drawn.
FULL = os.environ.get("TRAINSHED_CHAOS") == "full"


def some_random():
    """Random numbers that can be had again: what a failed test shows has their seed."""
    seed = int(os.environ.get("TRAINSHED_CHAOS_SEED") or random.SystemRandom().randrange(10**9))
    sys.stdout.write(f"TRAINSHED_CHAOS_SEED={seed}\n")
    return random.Random(seed)  # noqa: S311 - nothing secret


class Actor:
    """A process and the line to it."""

    def __init__(self, sock, name):
        self.name = name
        self.pid = None
        self._sock = sock
        self._heard = b""

    def say(self, **message):
        with contextlib.suppress(OSError):
            self._sock.sendall(json.dumps(message).encode() + b"\n")

    def hear(self, seconds=DEADLINE_S):
        """The next message; None if the process has ended."""
        until = time.monotonic() + seconds
        while b"\n" not in self._heard:
            left = max(0.0, until - time.monotonic())
            assert select.select([self._sock], [], [], left)[0], f"{self.name} says nothing"
            with contextlib.suppress(ConnectionResetError):
                more = self._sock.recv(1 << 16)
                self._heard += more
                if more:
                    continue
            return None
        text, self._heard = self._heard.split(b"\n", 1)
        return json.loads(text)

    def begun(self):
        """What it says first: its process, and where it listens if it reduces."""
        message = self.hear()
        assert message, f"{self.name} did not begin"
        self.pid = message["pid"]
        return message["address"]

    def until(self, key):
        """The next message that has ``key``."""
        while True:
            message = self.hear()
            assert message is not None, f"{self.name} has ended without a word"
            if key in message:
                return message

    def signal(self, number):
        """Only what is still there has its number."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self):
        self._sock.close()


class Nursery:
    """The process that forks actors; all end with it."""

    def __init__(self):
        self._actors = []
        self._orders, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, str(ACTOR), str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def fork(self, name):
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._orders, [b"1"], [theirs.fileno()])
        self._actors.append(Actor(ours, name))
        return self._actors[-1]

    def close(self):
        for actor in self._actors:
            actor.close()
        self._orders.close()
        self._process.kill()
        self._process.wait(DEADLINE_S)


class Cast:
    """The workers and reducers of one group; ``others`` of an actor are all but it."""

    def __init__(self, workers, reducers):
        self.workers = workers
        self.reducers = reducers

    def going(self):
        """Wait until every worker has summed a few times."""
        for worker in self.workers:
            worker.until("rounds")
        return self

    def ends(self, but=()):
        """How it ended for each worker that is asked, by name."""
        workers = [worker for worker in self.workers if worker not in but]
        return {worker.name: worker.until("error") for worker in workers}

    def close(self):
        for actor in [*self.workers, *self.reducers]:
            actor.close()


def cast(fork, workers, reducers, *, hosts=None, **settings):
    """Start reducers and a group that sums until it fails; ``fork`` makes an actor of a name.

    Rank r is on ``hosts[r]``, reducer i on ``hosts[workers + i]``.
    """
    hosts = hosts or [HOST] * (workers + reducers)
    token = secrets.token_hex(16)
    pool = [fork(f"reducer {index}") for index in range(reducers)]
    for index, actor in enumerate(pool):
        actor.say(role="reducer", host=hosts[workers + index], index=index, token=token)
    places = [actor.begun() for actor in pool]
    stage = cast_at(fork, places, token, workers, hosts=hosts, **settings)
    stage.reducers = pool
    return stage


def cast_at(  # noqa: PLR0913 - a group has this many settings
    fork, places, token, world, *, sizes, hosts=None, hybrid=False, rounds=None, **settings
):
    """Start a group at reducers that are there already."""
    stage = Cast([fork(f"worker {rank}") for rank in range(world)], [])
    about = {"world": world, "epoch": time.time_ns(), "timeout": 60.0, "probes": False}
    for rank, actor in enumerate(stage.workers):
        what = {"role": "worker", "rank": rank, "host": (hosts or [HOST] * world)[rank]}
        more = {"reduces": hybrid, "sizes": sizes, "rounds": rounds, "token": token}
        actor.say(**what, **more, **{**about, **settings})
    own = [actor.begun() for actor in stage.workers]
    for actor in stage.workers:
        actor.say(reducers=places, own=own if hybrid else [])
    return stage


@contextlib.contextmanager
def nursery():
    parent = Nursery()
    try:
        yield parent
    finally:
        parent.close()
