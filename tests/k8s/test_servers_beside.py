"""Servers beside each other: one takes over from a killed one, two share a namespace."""

import pytest

from e2e import fleet
from e2e.support import check_the_end, end_all, good, native, submit, wait_until
from k8s.emulator.rbac import MASTERS
from k8s.serving import SERVER_CLAIM, prepare_server, serving_cluster, small_job
from k8s.started_programs import bucket_of, counted_start, ran_beside, read_starts, waits_for
from postgres_server import bin_folder, running_postgres
from trainshed.engines.kubernetes.paths import ACCESS_REVIEWS

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]

WRITES = ("create", "delete", "patch", "update")


@pytest.fixture
def database():
    if bin_folder() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with running_postgres() as postgres:
        yield postgres.new_database()


@pytest.fixture
def servers(live_cluster, tmp_path, database):
    """Two processes on one database, one data directory and one claim."""
    flags = ("--database", database)
    both = [prepare_server(live_cluster, tmp_path / "data", *flags) for _ in range(2)]
    try:
        for server in both:
            server.start()
        fleet.make_bucket(both[0])
        yield both
        both[1].stop()
        check_the_end(both[1])
    finally:
        for server in both:
            server.kill()
        end_all(both[0])


def test_the_jobs_of_a_killed_server_end_at_the_other(servers, live_cluster):
    first, second = servers
    names = [fleet.begun(first, small_job(f"runs-{n}", waits_for("go"))) for n in range(2)]
    names += [submit(first, small_job(f"late-{n}", counted_start())) for n in range(2)]
    cancelled = fleet.begun(first, small_job("cancelled", waits_for("never")))
    good(first.call("POST", f"/v1/{cancelled}:cancel", {}))
    first.kill()
    assert fleet.ended(second, cancelled)["state"] == "CANCELLED"
    (bucket_of(second) / "go").touch()
    for name in names:
        job = fleet.ended(second, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(second, name)
    starts = read_starts(bucket_of(second))
    assert len(starts) == len(names) + 1
    assert set(starts.values()) == {1}
    for kind in ("JobSet", "Pod", "Secret"):
        wait_until(lambda kind=kind: not live_cluster.store.list(kind, "default")[0])


def test_two_installations_in_one_namespace_leave_each_other_alone(live_cluster, tmp_path):
    for user in ("one", "two"):
        live_cluster.api.access.add_user(user, f"{user}-token", (MASTERS,))
    with (
        serving_cluster(live_cluster, tmp_path / "one", token="one-token") as one,
        serving_cluster(live_cluster, tmp_path / "two", token="two-token") as two,
    ):
        for server in (one, two):
            fleet.make_bucket(server)
        names = [fleet.begun(two, small_job(f"two-{n}", waits_for("go"))) for n in range(2)]
        objects_before = objects_of(live_cluster, two)
        assert len(objects_before) == 3 * len(names)
        ended = fleet.begun(one, small_job("one", waits_for("go")))
        fleet.cancel(one, ended)
        good(one.call("DELETE", f"/v1/{ended}"))
        one.kill()
        one.start()
        fleet.cancel(one, fleet.begun(one, small_job("again", waits_for("go"))))
        wait_until(lambda: not objects_of(live_cluster, one))
        assert objects_of(live_cluster, two) == objects_before
        assert len(list(jobs_of(live_cluster, two).iterdir())) == len(names)
        check_writes(live_cluster, one, "one")
        check_writes(live_cluster, two, "two")
        (bucket_of(two) / "go").touch()
        for name in names:
            job = fleet.ended(two, name)
            assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(two, name)
            assert native(two, name).get("restarts") is None
        assert set(read_starts(bucket_of(two)).values()) == {1}
        assert not ran_beside(bucket_of(two))


def installation_of(server):
    return (server.data_dir / "installation").read_text().strip()


def objects_of(cluster, server):
    """The uids of the objects of a server's attempts, by kind and name."""
    prefix = f"ts-{installation_of(server)}-"
    return {
        (kind, row["metadata"]["name"]): row["metadata"]["uid"]
        for kind in ("JobSet", "Pod", "Secret")
        for row in cluster.store.list(kind, "default")[0]
        if row["metadata"]["name"].startswith(prefix)
    }


def jobs_of(cluster, server):
    claim = cluster.folder / "claims" / "default" / SERVER_CLAIM
    return claim / installation_of(server) / "jobs"


def is_check(row):
    return row.path == ACCESS_REVIEWS or "dryRun" in row.query


def check_writes(cluster, server, user):
    """All that a user has changed by the API's audit has the name of its own installation.

    Reviews of permissions and dry runs change nothing.
    """
    rows = [row for row in cluster.api.server.list_audit() if row.user == user]
    writes = [row for row in rows if row.verb in WRITES and not is_check(row)]
    assert writes
    own = f"ts-{installation_of(server)}-"
    foreign = [row for row in writes if own not in f"{row.path} {row.body.decode()}"]
    assert not foreign, foreign
