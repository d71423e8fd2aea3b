"""A server of a cluster is killed at every place where it writes, sends a request or orders."""

import json
from collections import Counter
from itertools import cycle

import pytest

from e2e import fleet
from e2e.cluster_kills import are_cancelled, cancel_two, check_fates, delete_one
from e2e.failpoints import FailingServer, Jobs, uid_of
from e2e.support import end_all, wait_until
from e2e.test_failpoints import TRIES, kill_at, kill_everywhere, tell
from k8s.serving import IMAGES, SERVER_CLAIM, compose_table, small_job
from k8s.started_programs import bucket_of, counted_start, read_starts, waits_for

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

#: Those that run all the while.
LIVES = 4
#: How many each start submits beside, if it lives to; and how many there are in all at the end.
QUICK, JOBS = 3, 50
CREATED = 201
POSTED = "launch: kubernetes post jobsets after"
#: Only a server whose predecessor was killed before the uid was stored comes there.
READ_BACK = [f"launch: kubernetes get jobsets {side}" for side in ("before", "after")]
QUICKLY = counted_start()
EXPIRES = "\n[jobs]\nfinished_days_max = 0.00006\n"


def is_ours(place):
    is_file = place.startswith(("kubernetes ", "slurm "))
    return is_file or (": kubernetes " in place and "get jobsets" not in place)


def kill_at_read_back(server, place, jobs):
    """Of a job that runs meanwhile: of one that has ended, the observer may be first."""
    for _ in range(TRIES):
        assert kill_at(server, POSTED, lambda: jobs.submit(code=waits_for("go")))
        server.arm(place)
        server.begin()
        if server.await_death():
            return True
    return False


def test_each_attempt_has_one_jobset_and_none_is_lost(live_cluster, tmp_path):
    server = FailingServer(
        tmp_path / "data",
        *("--fleet-policy", "emulate"),
        config=compose_table(live_cluster, tmp_path / "data", policy="best-effort"),
        images=IMAGES,
    )
    jobs = Jobs(server, lambda number, code=QUICKLY: small_job(f"job-{number}", code))
    try:
        begin(server)
        bucket = bucket_of(server)
        for _ in range(LIVES):
            jobs.submit(code=waits_for("go"))
        for name in jobs.those("lives"):
            fleet.wait_for_words(server, name, "began")
        server.kill()

        def drive():
            for _ in range(QUICK):
                jobs.submit("ended")
            cancel_two(server, jobs, waits_for("never"))
            delete_one(server, jobs)
            wait_until(lambda: server.has_ended or are_cancelled(server, jobs))

        places, missed = kill_everywhere(server, drive, at=is_ours)
        missed += [place for place in READ_BACK if not kill_at_read_back(server, place, jobs)]
        again = cycle(places)
        while len(jobs.fates) < JOBS and not missed:
            kill_at(server, next(again), drive)
        server.arm(None)
        assert server.begin(), server.output()[-6000:]
        (bucket / "go").touch()
        check_fates(server, jobs)
        check_starts(jobs, bucket)
        check_audit(server, jobs, live_cluster)
        check_nothing_is_left(server, jobs, live_cluster)
    finally:
        end_all(server)
    tell(places, server)
    assert not missed, missed
    kinds = {tuple(place.split()[2:4]) for place in places}
    assert {("post", "secrets"), ("post", "jobsets")} <= kinds, kinds
    assert {("patch", "secrets"), ("delete", "jobsets")} <= kinds, kinds


def begin(server):
    server.arm(None)
    assert server.begin()
    fleet.make_bucket(server)


def check_starts(jobs, bucket):
    """No program was started twice, and of those that ended each was started."""
    starts = read_starts(bucket)
    assert set(starts.values()) == {1}, starts
    ended = [name for fate in ("lives", "ended", "deleted") for name in jobs.those(fate)]
    assert {f"{uid_of(name)}-1" for name in ended} <= {attempt for attempt, _ in starts}


def check_audit(server, jobs, cluster):
    """The API has accepted one JobSet for each attempt, and one Secret."""
    ours = f"ts-{(server.data_dir / 'installation').read_text().strip()}-"
    begun = {uid_of(n) for fate in ("lives", "ended", "deleted") for n in jobs.those(fate)}
    for kind in ("jobsets", "secrets"):
        rows = cluster.api.server.list_audit("create", f"/{kind}")
        names = [name_in(row) for row in rows if row.code == CREATED]
        counts = Counter(name for name in names if name.startswith(ours))
        assert set(counts.values()) == {1}, (kind, counts)
        assert {f"{ours}{uid}-1" for uid in begun} <= counts.keys(), kind


def name_in(row):
    return json.loads(row.body)["metadata"]["name"]


def check_nothing_is_left(server, jobs, cluster):
    """The cluster has no object of any attempt, and the claim no folder once jobs are expired."""
    for name, state in jobs.states().items():
        if state not in {"JOB_STATE_SUCCEEDED", "JOB_STATE_CANCELLED"}:
            fleet.cancel(server, name)
    for kind in ("JobSet", "Pod"):
        wait_until(
            lambda kind=kind: not cluster.store.list(kind, "default")[0],
            lambda kind=kind: cluster.store.list(kind, "default")[0],
        )
    server.stop()
    with (server.data_dir / "config.toml").open("a") as file:
        file.write(EXPIRES)
    assert server.begin()
    installation = (server.data_dir / "installation").read_text().strip()
    folder = cluster.folder / "claims" / "default" / SERVER_CLAIM / installation / "jobs"
    wait_until(lambda: not list(folder.iterdir()), lambda: list(folder.glob("*/*")), timeout_s=240)
    assert not cluster.store.list("Secret", "default")[0]
