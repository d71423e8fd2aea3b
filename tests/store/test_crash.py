"""What the store has answered survives the end of everything."""

import signal
import subprocess
import sys
from pathlib import Path

from store.builders import PROJECT
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

ADDER = Path(__file__).with_name("killed_adder.py")
KILLED_AFTER = 300


def test_every_answered_job_is_there_once_after_a_kill(url):
    with subprocess.Popen([sys.executable, ADDER, url], stdout=subprocess.PIPE) as child:
        answered = [next(child.stdout).split() for _ in range(KILLED_AFTER)]
        child.kill()
        answered += [line.split() for line in child.stdout]
    assert child.returncode == -signal.SIGKILL, "it was killed in the middle"
    store = open_store(url)
    try:
        for name, uid in answered:
            assert store.job(PROJECT, JobKind.CUSTOM_JOB, name.decode()).uid == int(uid)
        waiting = [job.uid for job in store.waiting(limit=10**6)]
        assert len(waiting) == len(set(waiting)) == store.waiting_count()
        assert {int(uid) for _, uid in answered} <= set(waiting)
        for uid in waiting:  # a job is there as a whole, or not at all
            assert store.expanded(uid)
            assert [event.kind for event in store.events(uid)] == ["ACCEPTED"]
    finally:
        store.close()
