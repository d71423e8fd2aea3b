"""Troubles of a cluster as users and administrators of a server meet them: whole answers.

``test_trouble_table`` has every row with the engine alone.
"""

import pytest

from e2e import fleet
from e2e.chaos import check_count, counting, restarts
from e2e.support import IMAGE, PROJECT, log_lines, native, serving, submit, wait_until
from k8s.permitted import TOKEN, permitting
from k8s.serving import compose_table, serving_cluster, small_job
from server_process import TRAINSHED, finished
from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.permissions import PERMISSIONS

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

HERE = '[[engine]]\nname = "here"\nkind = "local"\n\n'
WAITS = "import time\nprint('began', flush=True)\ntime.sleep(600)"


@pytest.fixture
def server(live_cluster, tmp_path):
    with serving_cluster(live_cluster, tmp_path / "data", image_timeout_s=20.0) as server:
        fleet.make_bucket(server)
        yield server


def run_client(server, *words):
    """What a command of ``trainshed`` prints for the server."""
    return finished([TRAINSHED, *words, "--data-dir", str(server.data_dir)])


def explain(server, name):
    """What ``trainshed jobs explain`` prints."""
    return run_client(server, "jobs", "explain", name, "--project", PROJECT).stdout


def explained(server, name, *words):
    """The answer of ``jobs explain`` once it has these words."""

    def look():
        text = explain(server, name)
        return text if all(word in text for word in words) else None

    return wait_until(look, lambda: explain(server, name), timeout_s=60)


def created_jobsets(cluster, server, name):
    """The names of the JobSets that a job ever had, by the API's audit."""
    uid = native(server, name)["uid"]
    rows = cluster.api.server.list_audit("create", "/jobsets")
    texts = [row.body.decode() for row in rows if row.code == 201]
    return [text for text in texts if f'"trainshed.dev/job":"{uid}"' in text]


def test_a_cluster_without_jobset_is_named_and_another_engine_goes_on(live_cluster, tmp_path):
    live_cluster.api.server.discovery.hidden.add(paths.JOBSET)
    table = HERE + compose_table(live_cluster, tmp_path / "data")
    try:
        with serving(tmp_path / "data", config=table) as server:
            wait_until(lambda: "does not serve the kind JobSet" in _list_nodes(server))
            job = small_job("here")
            job["labels"] = {"trainshed-engine": "here"}
            name = submit(server, job)
            assert fleet.ended(server, name)["state"] == "SUCCEEDED"
            live_cluster.api.server.discovery.hidden.clear()
            wait_until(lambda: "JobSet" not in _list_nodes(server))
    finally:
        live_cluster.api.server.discovery.hidden.clear()


def _list_nodes(server):
    return run_client(server, "nodes", "list").stdout


def test_a_missing_rule_is_the_line_that_an_administrator_adds(live_cluster, tmp_path):
    with permitting(live_cluster) as give:
        give(*[row for row in PERMISSIONS if row.resource != "pods"])
        with serving_cluster(live_cluster, tmp_path / "data", token=TOKEN) as server:
            rule = '- {apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]}'
            name = submit(server, small_job("waits"))
            text = explained(server, name, "too few permissions")
            assert rule in " ".join(text.split())
            give(*PERMISSIONS)
            assert fleet.ended(server, name)["state"] == "SUCCEEDED"


def test_a_gang_with_one_image_that_does_not_exist_runs_no_program(server):
    job = small_job("bad-image", workers=2)
    pools = job["jobSpec"]["workerPoolSpecs"]
    pools[1]["containerSpec"]["imageUri"] = "registry.test/absent:1"
    name = submit(server, job)
    explained(server, name, "IMAGE", "cannot pull the image registry.test/absent:1")
    job = fleet.ended(server, name)
    assert job["state"] == "FAILED"
    assert "registry.test/absent:1" in explain(server, name)
    assert [line for line in log_lines(server, name) if line["message"] == "trained"] == []
    assert restarts(server, name) == {}


def test_a_gpu_type_without_a_row_is_refused_at_submit(live_cluster, tmp_path):
    folder = tmp_path / "data"
    with serving_cluster(live_cluster, folder, gpus={"NVIDIA_L4": {}}) as server:
        path = f"/v1/projects/{PROJECT}/locations/us-central1/customJobs"
        status, answer = server.call("POST", path, small_job("gpu", gpus=1))
        assert status == 400, answer
        assert "the cluster has no NVIDIA_TESLA_T4" in answer["error"]["message"]


def test_an_api_that_is_away_restarts_nothing_and_loses_no_line(server, live_cluster):
    job = fleet.in_bucket(small_job("counts", counting("/gcs/results/go", pause_s=0.05)), "x")
    name = fleet.begun(server, job, "1")
    live_cluster.api.server.stop()
    try:
        explained(server, name, "ENGINE_AWAY", "the cluster has not listed")
        assert native(server, name)["state"] == "RUNNING"
    finally:
        live_cluster.api.server.start()
    wait_until(lambda: "ENGINE_AWAY" not in explain(server, name))
    _touch(server, "go")
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(server, name)
    check_count(fleet.output_lines(server, name))
    assert len(created_jobsets(live_cluster, server, name)) == 1


def _touch(server, name):
    """Make an object of the bucket of the jobs."""
    path = f"/upload/storage/v1/b/{fleet.BUCKET}/o?uploadType=media&name={name}"
    fleet.good(server.call("POST", path, {}))


def test_a_drain_counts_as_maintenance_and_the_job_goes_on(server, live_cluster):
    name = fleet.begun(server, small_job("drained", WAITS))
    node = native(server, name)["replicas"][0]["node"]
    live_cluster.plane.drain(node)
    try:
        fleet.running(server, name, attempt=2)
        assert restarts(server, name) == {"maintenance": 1}
    finally:
        live_cluster.plane.cordon(node, is_cordoned=False)
    fleet.cancel(server, name)
    assert len(created_jobsets(live_cluster, server, name)) == 2


def test_a_jobset_that_somebody_deletes_is_told_and_the_job_starts_again(server, live_cluster):
    name = fleet.begun(server, small_job("deleted", WAITS))
    uid = native(server, name)["uid"]
    (jobset,) = [row for row in _list_jobsets(live_cluster) if f"-{uid}-" in row]
    live_cluster.store.delete("JobSet", "default", jobset)
    fleet.running(server, name, attempt=2)
    events = [event["message"] for event in fleet.story(server, name)]
    assert any("has deleted the JobSet" in text for text in events), events
    assert sum(restarts(server, name).values()) == 1
    fleet.cancel(server, name)


def _list_jobsets(cluster):
    return [row["metadata"]["name"] for row in cluster.store.list("JobSet", "default")[0]]


def test_doctor_probes_the_cluster_beside_a_server_at_work(live_cluster, tmp_path):
    folder = tmp_path / "data"
    with serving_cluster(live_cluster, folder, probe_image=IMAGE) as server:
        name = fleet.begun(server, small_job("runs", WAITS))
        probe = run_client(server, "doctor", "--engine", "cluster")
        assert probe.returncode == 0, probe.stdout
        lines = probe.stdout.splitlines()
        assert all(line.startswith("ok") for line in lines), lines
        assert any("first line: " in line and "after the POST" in line for line in lines)
        assert not [row for row in _list_jobsets(live_cluster) if "probe" in row]
        assert native(server, name)["state"] == "RUNNING"
        fleet.cancel(server, name)
