"""A server of a cluster is killed at every place where it writes, submits or orders."""

import sys
from collections import Counter

import pytest

from e2e import fleet
from e2e.cluster_kills import are_cancelled, cancel_two, check_fates, delete_one
from e2e.failing_server import SLURM
from e2e.failpoints import FailingServer, Jobs, uid_of
from e2e.support import end_all, wait_until
from e2e.test_failpoints import kill_at, tell
from slurm.support import a_job, allocations, partition, table, waits_for

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1200)]

#: Those that run all the while.
LIVES = 8
#: How many each start submits beside, if it lives to.
QUICK = 6
PLACES = [f"slurm {name} {side}" for _, name in SLURM for side in ("before", "after")]
#: Every job comes to these: the server is killed also at the fourth time, among several launches.
OF_LAUNCHES = {"make", "write", "keep_submitted", "submit"}
KILLS = [
    *((place, 1) for place in PLACES),
    *((place, 4) for place in PLACES if place.split()[1] in OF_LAUNCHES),
]


def test_each_attempt_has_one_allocation_and_none_is_lost(cluster, tmp_path):
    with partition(cluster, "closed", "state=down"):
        go, never = cluster.shared / "go-kills", cluster.shared / "never"
        flags = ("--fleet-policy", "emulate")
        (tmp_path / "data").mkdir()
        settings = table(cluster, wishes=["partition"])
        server = FailingServer(tmp_path / "data", *flags, config=settings)
        jobs = Jobs(server, numbered_job)
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
                cancel_queued(server, jobs, cluster)
                delete_one(server, jobs)
                wait_until(lambda: server.has_ended or are_cancelled(server, jobs))

            missed = [kill for kill in KILLS if not kill_at(server, kill[0], drive, kill[1])]
            server.arm(None)
            assert server.begin(), server.output()[-6000:]
            go.touch()
            check_fates(server, jobs)
            check_allocations(server, jobs, cluster)
        finally:
            end_all(server)
    tell(KILLS, server)
    sys.stdout.write(f"{len(jobs.fates)} jobs: {dict(Counter(jobs.fates.values()))}\n")
    assert not missed, missed


def numbered_job(number, code="print('done')", queue=None):
    document = a_job(f"job-{number}", code)
    if queue:
        document["labels"] = {"trainshed-slurm-partition": queue}
    return document


def cancel_queued(server, jobs, cluster):
    """One that Slurm never starts: the server, not a launcher, ends it."""
    if name := jobs.submit(queue="closed"):
        ending = f"-{uid_of(name)} PENDING"
        wait_until(
            lambda: server.has_ended or any(job.endswith(ending) for job in cluster.jobs("%j %T"))
        )
        jobs.cancel(name)


def check_allocations(server, jobs, cluster):
    """As many as attempts, by the count of Slurm itself."""
    ours = f"ts-{(server.data_dir / 'installation').read_text().strip()}-"
    begun = {str(uid_of(n)) for fate in ("lives", "ended", "deleted") for n in jobs.those(fate)}
    names = Counter(name for name in allocations(cluster, begun) if name.startswith(ours))
    assert set(names.values()) == {1}, names
    assert {f"{ours}{uid}" for uid in begun} <= names.keys()
