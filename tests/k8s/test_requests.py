"""What the pods of jobs request, why they wait, and the words and lines that pass through them."""

import hashlib

import pytest

from e2e import fleet
from e2e.support import good, native, submit, wait_until
from k8s.job_programs import list_pods, put_object, waits_for
from k8s.kueue_objects import create_kueue
from k8s.serving import serving_cluster, small_job
from slurm.support import come_to
from slurm.test_service import ARRIVED, ODD
from trainshed.engines.kubernetes.gpus import NVIDIA
from trainshed.engines.kubernetes.runtime import architecture

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

GPU_NODE, T4_LABEL = "gpu-node", {"nvidia.com/gpu.product": "Tesla-T4"}
TAINT = {"key": NVIDIA, "value": "present", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    """With a node of four GPUs, which takes only pods that tolerate its taint."""
    resources = {"cpu": 64, "memory": "256Gi", NVIDIA: 4}
    labels = {"kubernetes.io/arch": architecture(), **T4_LABEL}
    live_cluster.plane.add_node(GPU_NODE, resources, labels=labels, taints=[TAINT])
    with serving_cluster(live_cluster, tmp_path_factory.mktemp("served") / "data") as server:
        fleet.make_bucket(server)
        yield server


def test_a_pod_requests_gpus_of_its_type_and_tolerates_their_taint(server, live_cluster):
    name = fleet.begun(server, small_job("gpus", waits_for("go-gpus"), gpus=2))
    (replica,) = native(server, name)["replicas"]
    assert replica["node"] == GPU_NODE
    (pod,) = list_pods(live_cluster, native(server, name)["uid"])
    main = pod["spec"]["containers"][0]
    assert main["resources"]["requests"] == {"cpu": "4", "memory": "15360Mi", NVIDIA: "2"}
    assert main["resources"]["limits"] == {"memory": "15360Mi", NVIDIA: "2"}
    assert T4_LABEL.items() <= pod["spec"]["nodeSelector"].items()
    put_object(server, "go-gpus")
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)


def test_a_job_waits_for_gpus_that_others_use(server):
    first = fleet.begun(server, small_job("uses", waits_for("go-uses"), gpus=4))
    second = submit(server, small_job("waits", gpus=1))
    come_to(server, second, "ENQUEUED")
    wait_until(lambda: native(server, second)["waiting"]["reason"] == "CAPACITY")
    explained = fleet.trainshed(server, "jobs", "explain", second)
    assert "the primary has no place: 1 node lacks nvidia.com/gpu" in explained
    put_object(server, "go-uses")
    for name in (first, second):
        assert fleet.ended(server, name)["state"] == "SUCCEEDED"


def test_a_type_of_gpus_that_no_node_has_is_refused(server):
    document = small_job("refused", gpus=1)
    machine = document["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]
    machine["acceleratorType"] = "NVIDIA_TESLA_V100"
    path = "/v1/projects/demo-proj/locations/us-central1/customJobs"
    status, refusal = server.call("POST", path, document)
    assert status == 400
    assert "has no NVIDIA_TESLA_V100; its GPUs are: NVIDIA_TESLA_T4" in refusal["error"]["message"]


@pytest.mark.parametrize("more", [("x" * 100_000, ""), ("", "y" * 100_000)], ids=["args", "env"])
def test_words_of_any_kind_arrive_byte_for_byte(server, more):
    word, text = (ODD + extra for extra in more)
    document = small_job('it\'s "odd" $HOME $(HOME) `id` \u00fc', ARRIVED)
    container = document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    container["args"].append(f"$(HOME) {word}")
    container["env"] = [{"name": "ODD", "value": f"$(PATH) {text}"}]
    name = submit(server, document)
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    sent = (f"$(HOME) {word}".encode(), f"$(PATH) {text}".encode())
    assert fleet.output_lines(server, name) == [
        f"{len(words)} {hashlib.sha256(words).hexdigest()}" for words in sent
    ]
    assert good(server.call("GET", f"/v1/{name}"))["displayName"] == document["displayName"]


def test_lines_are_read_while_a_program_runs(server):
    """All of them, and none twice, although the log is read meanwhile."""
    code = f"for n in range(20000): print('line', n)\n{waits_for('go-lines')}"
    name = fleet.begun(server, small_job("lines", code))
    lines = fleet.output_lines(server, name)
    assert lines == [*(f"line {n}" for n in range(20000)), "began"]
    assert native(server, name)["state"] == "RUNNING"
    put_object(server, "go-lines")
    assert fleet.ended(server, name)["state"] == "SUCCEEDED"
    assert fleet.output_lines(server, name) == lines


def test_a_job_waits_in_a_queue_of_kueue_and_says_why(live_cluster, tmp_path):
    """First the queue has no ClusterQueue, then it is full."""
    meta = {"name": "train", "namespace": "default"}
    create_kueue(live_cluster, "LocalQueue", {"metadata": meta, "spec": {"clusterQueue": "all"}})
    with serving_cluster(live_cluster, tmp_path / "data", queue="train") as server:
        fleet.make_bucket(server)
        name = submit(server, small_job("queued", waits_for("go-queued")))
        come_to(server, name, "ENQUEUED")
        wait_for_reason(server, name, "the queue train, or its ClusterQueue, does not exist")
        quota = [{"name": "cpu", "nominalQuota": "5"}, {"name": "memory", "nominalQuota": "20Gi"}]
        flavor = {"name": "any", "resources": quota}
        group = {"coveredResources": ["cpu", "memory"], "flavors": [flavor]}
        create_kueue(live_cluster, "ResourceFlavor", {"metadata": {"name": "any"}, "spec": {}})
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        create_kueue(live_cluster, "ClusterQueue", {"metadata": {"name": "all"}, "spec": spec})
        fleet.running(server, name)
        second = submit(server, small_job("second"))
        wait_for_reason(server, second, "other jobs use the quota of the queue train")
        explained = fleet.trainshed(server, "jobs", "explain", second)
        assert "QUOTA: other jobs use the quota of the queue train" in explained
        put_object(server, "go-queued")
        for job in (name, second):
            assert fleet.ended(server, job)["state"] == "SUCCEEDED", fleet.story_text(server, job)


def wait_for_reason(server, name, words):
    """Wait until a job waits for a reason with these words."""

    def is_reason():
        return words in (native(server, name).get("waiting") or {}).get("message", "")

    wait_until(is_reason, lambda: str(native(server, name).get("waiting")))
