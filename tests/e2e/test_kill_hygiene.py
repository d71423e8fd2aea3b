"""Jobs that are hard to end, ended at any moment: nothing of them lives afterwards."""

import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e import trainers
from e2e.chaos import FULL, check_doctor, some_random
from e2e.remains import Remains
from e2e.support import FINAL, custom_job, good, log_lines, serving, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if FULL else 900)]

CANCELS = 200 if FULL else 10
ENDS = 40 if FULL else 2
TORCHRUNS = 6 if FULL else 1
AT_ONCE = 10
CONFIG = "[fleet]\ngrace_s = 1\nslots = 64\n"
FLAGS = ("--fleet-policy", "best-effort", "--fake-gpus", "3")


class Fates:
    """Jobs of all kinds, each seen through from its submit to the search for what it left."""

    def __init__(self, server, chance):
        self._server = server
        self._chance = chance
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.took_s = []
        self.met = set()

    def cancelled(self, kind, code, moment):
        """Submit, wait for a moment, cancel."""
        remains, name = self._submit(kind, code)
        if moment.ready:
            self._wait_until(name, lambda: self._is_ready(name))
            assert remains.processes(), "what is to be ended lives"
        time.sleep(moment.pause_s)
        state = good(self._server.call("GET", f"/v1/{name}"))["state"]
        began = time.monotonic()
        good(self._server.call("POST", f"/v1/{name}:cancel", {}))
        self._check_end(name, remains, "JOB_STATE_CANCELLED")
        with self._lock:
            self.met.add(state)
            self.took_s.append((time.monotonic() - began, kind, state))

    def ended(self, kind, code, state):
        """Submit a job that ends by itself."""
        remains, name = self._submit(kind, code)
        self._check_end(name, remains, state)

    def _submit(self, kind, code):
        with self._lock:
            word = f"word-{next(self._numbers)}-of-{id(self):x}"
            gpus, workers = self._chance.choice([(0, 0), (0, 0), (0, 1), (1, 0)])
        document = custom_job(kind, trainers.program(code, word), gpus=gpus, workers=workers)
        name = submit(self._server, document)
        return Remains(self._server, name, word), name

    def _is_ready(self, name):
        texts = [line["message"] for line in log_lines(self._server, name)]
        return "ready" in texts

    def _wait_until(self, name, is_so):
        deadline = time.monotonic() + 240
        while not is_so():
            assert time.monotonic() < deadline, log_lines(self._server, name)
            time.sleep(0.1)

    def _check_end(self, name, remains, state):
        job = self._server.wait_for(f"/v1/{name}", FINAL, timeout_s=240)
        remains.check_no_process()
        assert job["state"] == state, job
        remains.check_nothing()


class Moment:
    """When a job is cancelled: some time after its submit, or after it runs."""

    def __init__(self, chance):
        self.ready = chance.random() < 0.5
        self.pause_s = chance.choice([0, chance.random() * 0.3, chance.random() * 2])


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(tmp_path / "locks"))
    with serving(tmp_path / "data", *FLAGS, config=CONFIG) as server:
        yield server


def test_nothing_of_a_job_outlives_its_end(server):
    chance = some_random()
    fates = Fates(server, chance)
    kinds = itertools.cycle(trainers.LIVING.items())
    tasks = [(fates.cancelled, *next(kinds), Moment(chance)) for _ in range(CANCELS - TORCHRUNS)]
    tasks += [(fates.cancelled, "torchrun", trainers.TORCHRUN, Moment(chance))] * TORCHRUNS
    endings = itertools.cycle(trainers.ENDING.items())
    tasks += [(fates.ended, kind, *how) for kind, how in itertools.islice(endings, ENDS)]
    chance.shuffle(tasks)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for future in [pool.submit(*task) for task in tasks]:
            future.result()
    slowest = sorted(fates.took_s)[-3:]
    sys.stdout.write(f"{len(fates.took_s)} cancels in {fates.met}; the slowest: {slowest}\n")
    assert len(fates.took_s) == CANCELS
    assert fates.met >= {"JOB_STATE_RUNNING"}
    check_doctor(server)
