"""The server or the API is away while jobs run, end, and are ordered to end: nothing is lost."""

import pytest

from e2e import fleet
from e2e.chaos import check_count
from e2e.support import good, native, submit, wait_until
from k8s.serving import serving_cluster, small_job
from k8s.started_programs import bucket_of, counted_start, counts_until, read_starts, waits_for

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture
def server(live_cluster, tmp_path):
    with serving_cluster(live_cluster, tmp_path / "data", policy="best-effort") as server:
        fleet.make_bucket(server)
        yield server


@pytest.fixture
def bucket(server):
    return bucket_of(server)


def jobsets_of(cluster, server):
    """The names of this server's JobSets."""
    ours = f"ts-{(server.data_dir / 'installation').read_text().strip()}-"
    names = [row["metadata"]["name"] for row in cluster.store.list("JobSet", "default")[0]]
    return [name for name in names if name.startswith(ours)]


def reason(server, name):
    return (fleet.reason(native(server, name)) or {}).get("reason")


def ended_once(server, name, state="SUCCEEDED"):
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == (state, 1), fleet.story_text(server, name)
    return job


def test_all_lines_of_a_job_that_ran_without_a_server_are_there(server, live_cluster, bucket):
    """One runs already; of the other the server has sent the JobSet, and its pods have no node."""
    running = fleet.begun(server, small_job("runs", counts_until("go")), "1")
    for number in range(1, 5):
        live_cluster.plane.cordon(f"node-{number}")
    whole = submit(server, small_job("whole", counts_until("go", status=3)))
    wait_until(lambda: len(jobsets_of(live_cluster, server)) == 2)
    wait_until(lambda: reason(server, whole) in {"CAPACITY", "DRAINED", "NOT_STARTING"})
    server.kill()
    for number in range(1, 5):
        live_cluster.plane.cordon(f"node-{number}", is_cordoned=False)
    live_cluster.wait_for(lambda: len(read_starts(bucket)) == 2, "the second program to start")
    (bucket / "go").touch()
    live_cluster.wait_for(
        lambda: all(
            pod["status"]["phase"] in {"Succeeded", "Failed"}
            for pod in live_cluster.store.list("Pod", "default")[0]
        ),
        "the pods to end",
    )
    server.start()
    ended_once(server, running)
    ended_once(server, whole, "FAILED")
    for name in (running, whole):
        check_count(fleet.output_lines(server, name))
    wait_until(lambda: not jobsets_of(live_cluster, server))


def test_a_cancelled_job_whose_server_dies_is_cancelled_by_the_next(server, live_cluster, bucket):
    name = fleet.begun(server, small_job("cancelled", waits_for("never")))
    good(server.call("POST", f"/v1/{name}:cancel", {}))
    server.kill()
    server.start()
    assert fleet.ended(server, name)["state"] == "CANCELLED"
    wait_until(lambda: not jobsets_of(live_cluster, server))
    assert set(read_starts(bucket).values()) == {1}


def test_a_drain_while_no_server_lives_costs_the_budget_of_maintenance(
    server, live_cluster, bucket
):
    name = fleet.begun(server, small_job("drained", waits_for("go")))
    (node,) = {row["node"] for row in native(server, name)["replicas"]}
    server.kill()
    live_cluster.plane.drain(node)
    live_cluster.wait_for(lambda: not pods_on(live_cluster, node), "the node to be empty")
    try:
        server.start()
        fleet.running(server, name, 2)
        (other,) = {row["node"] for row in native(server, name)["replicas"]}
        assert other != node
        assert native(server, name)["restarts"] == {"infra": 0, "maintenance": 1, "user": 0}
        (bucket / "go").touch()
        assert fleet.ended(server, name)["state"] == "SUCCEEDED"
    finally:
        live_cluster.plane.cordon(node, is_cordoned=False)
    assert set(read_starts(bucket).values()) == {1}


def pods_on(cluster, node):
    pods, _ = cluster.store.list("Pod", "default")
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def test_an_api_that_is_away_while_jobs_end_costs_nothing(server, live_cluster, bucket):
    running = fleet.begun(server, small_job("ends", counts_until("go")), "1")
    stays = fleet.begun(server, small_job("stays", counts_until("later")), "1")
    live_cluster.api.server.stop()
    try:
        late = submit(server, small_job("late", counted_start()))
        wait_until(lambda: reason(server, late) == "ENGINE_AWAY", lambda: native(server, late))
        (bucket / "go").touch()
        ended_once(server, running)
    finally:
        live_cluster.api.server.start()
    ended_once(server, late)
    (bucket / "later").touch()
    ended_once(server, stays)
    for name in (running, stays):
        check_count(fleet.output_lines(server, name))
    assert set(read_starts(bucket).values()) == {1}


def test_a_history_that_was_compacted_meanwhile_costs_nothing(server, live_cluster, bucket):
    """Watches of an old version get 410: the engine lists anew, and neither repeats nor loses."""
    api = live_cluster.api.server
    names = [fleet.begun(server, small_job(f"c-{n}", counts_until(f"go-{n}")), "1") for n in (0, 1)]
    api.stop()
    (bucket / "go-0").touch()
    live_cluster.wait_for(
        lambda: any(
            pod["status"]["phase"] == "Succeeded"
            for pod in live_cluster.store.list("Pod", "default")[0]
        ),
        "the first job's pod to end",
    )
    api.expire_watches()
    before = len(api.list_audit("list", "/jobsets"))
    api.start()
    ended_once(server, names[0])
    (bucket / "go-1").touch()
    ended_once(server, names[1])
    live_cluster.wait_for(lambda: len(api.list_audit("list", "/jobsets")) > before, "a new list")
    for name in names:
        check_count(fleet.output_lines(server, name))


def test_an_api_that_restarts_again_and_again_restarts_no_job(server, live_cluster, bucket):
    names = [fleet.begun(server, small_job(f"r-{n}", counts_until("go")), "1") for n in range(2)]
    for _ in range(5):
        live_cluster.api.restart()
        live_cluster.api.server.end_watches()
    (bucket / "go").touch()
    for name in names:
        ended_once(server, name)
        check_count(fleet.output_lines(server, name))
    assert set(read_starts(bucket).values()) == {1}
