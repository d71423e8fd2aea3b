"""A server of a cluster is killed at every place where it writes, submits or orders."""

from collections import Counter
from itertools import cycle

import pytest

from e2e import fleet
from e2e.cluster_kills import are_cancelled, cancel_two, check_fates, delete_one
from e2e.failpoints import FailingServer, Jobs, uid_of
from e2e.support import end_all, wait_until
from e2e.test_failpoints import kill_at, kill_everywhere, tell
from slurm.support import a_job, allocations, table, waits_for

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

#: Those that run all the while.
LIVES = 8
#: How many each start submits beside, if it lives to; and how many there are in all at the end.
QUICK, JOBS = 6, 100


def is_ours(place):
    return ": slurm " in place


def test_each_attempt_has_one_allocation_and_none_is_lost(cluster, tmp_path):
    go, never = cluster.shared / "go-kills", cluster.shared / "never"
    flags = ("--fleet-policy", "emulate")
    (tmp_path / "data").mkdir()
    server = FailingServer(tmp_path / "data", *flags, config=table(cluster))
    jobs = Jobs(server, lambda number, code="print('done')": a_job(f"job-{number}", code))
    try:
        server.arm(None)
        assert server.begin()
        for _ in range(LIVES):
            jobs.submit(code=waits_for(go))
        for name in jobs.those("lives"):
            fleet.wait_for_words(server, name, "began")
        server.kill()

        def drive():
            for _ in range(QUICK):
                jobs.submit("ended")
            cancel_two(server, jobs, waits_for(never))
            delete_one(server, jobs)
            wait_until(lambda: server.has_ended or are_cancelled(server, jobs))

        places, missed = kill_everywhere(server, drive, at=is_ours)
        again = cycle(places)
        while len(jobs.fates) < JOBS and not missed:
            kill_at(server, next(again), drive)
        server.arm(None)
        assert server.begin(), server.output()[-6000:]
        go.touch()
        check_fates(server, jobs)
        check_allocations(server, jobs, cluster)
    finally:
        end_all(server)
    tell(places, server)
    assert not missed, missed
    # on an idle cluster jobs begin at once: what is cancelled is asked to end by its launcher
    assert {"submit", "keep_submitted", "look_now"} <= {place.split()[2] for place in places}


def check_allocations(server, jobs, cluster):
    """As many as attempts, by the count of Slurm itself."""
    ours = f"ts-{(server.data_dir / 'installation').read_text().strip()}-"
    begun = {str(uid_of(n)) for fate in ("lives", "ended", "deleted") for n in jobs.those(fate)}
    names = Counter(name for name in allocations(cluster, begun) if name.startswith(ours))
    assert set(names.values()) == {1}, names
    assert {f"{ours}{uid}" for uid in begun} <= names.keys()
