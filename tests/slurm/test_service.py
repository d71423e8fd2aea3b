"""A server whose only engine is a cluster: the same jobs, the same commands, the same answers."""

import hashlib
import subprocess
from functools import partial
from pathlib import Path

import pytest

from conformance.client_scripts import SDKS, python_of
from conformance.gcloud import needs_gcloud
from e2e import fleet
from e2e.support import FINAL, IMAGE, custom_job, good, log_lines, ml_job, native, submit
from slurm.support import (
    SMALL,
    WHERE,
    WHOLE_NODE,
    a_job,
    allocations,
    come_to,
    on_cluster,
    replicas_at,
    taken,
    waits_for,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VERTEX_RUN = Path(__file__).parent.parent / "e2e" / "vertex_run.py"
#: Each but the primary says who it is to whoever calls; the primary calls all.
ROLES = """\
import json, os, pathlib, socket, time
config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
me = f"{role} {index} gpus={os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
print(me, flush=True)
folder = pathlib.Path(FOLDER)
def end_of(place):
    host, _, port = place.rpartition(":")
    return host, int(port)
if role in ("worker", "ps"):
    with socket.create_server(end_of(config["cluster"][role][index])) as server:
        while True:
            peer = server.accept()[0]
            peer.sendall(me.encode())
            peer.close()
if role == "evaluator":
    (folder / "evaluator").touch()
    time.sleep(600)
for role in ("worker", "ps"):
    for place in config["cluster"].get(role, []):
        while True:
            try:
                peer = socket.create_connection(end_of(place))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        print("heard", peer.makefile().read(), flush=True)
while not (folder / "evaluator").exists():
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def server(session_cluster, tmp_path_factory):
    with on_cluster(session_cluster, tmp_path_factory.mktemp("slurm") / "data") as server:
        fleet.make_bucket(server)
        yield server


@pytest.fixture(autouse=True)
def _nodes_are_free(cluster):
    """Also after a test that failed."""


def test_jobs_of_both_dialects_run_on_the_cluster(server, cluster):
    names = [
        submit(server, job)
        for job in (ml_job("ml_1"), custom_job("vertex-1", fleet.REPORTS, workers=2))
    ]
    for name in names:
        job = fleet.ended(server, name)
        assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
        assert {replica["node"] for replica in job["replicas"]} <= {*cluster.nodes}
        lines = [line for line in log_lines(server, name) if line["message"] == "trained"]
        assert 1 <= len(lines) <= len(job["replicas"])
    assert fleet.output_lines(server, names[1]) == ["trained"]
    fleet.check_figures(server, names[1], replicas=3)
    sent = native(server, names[1], "/manifest")
    parts = {part["name"]: part["text"] for part in sent["parts"]}
    assert (sent["attempt"], sent["engine"]) == (1, "cluster")
    assert "sbatch --parsable" in parts["command"]
    assert parts["command"].split()[-4].rpartition("/")[2] in parts
    assert "print('trained'" in parts["plan.json"]


def test_a_gang_of_all_roles_finds_each_other(server, cluster):
    folder = cluster.shared / "roles"
    folder.mkdir(exist_ok=True)
    code = ROLES.replace("FOLDER", repr(str(folder)))
    container = {"imageUri": IMAGE, "containerCommand": ["python", "-c"], "containerArgs": [code]}
    gpus = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "2"}}
    kinds = {"master": {}, "worker": gpus, "parameterServer": {}, "evaluator": {}}
    training = {f"{kind}Type": SMALL for kind in kinds}
    training |= {f"{kind}Config": container | more for kind, more in kinds.items()}
    counts = {"workerCount": "2", "parameterServerCount": "1", "evaluatorCount": "1"}
    name = submit(server, ml_job("roles", **training, **counts))
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    heard = fleet.output_lines(server, name, "master-replica-0")
    assert heard[0].startswith("master 0")
    assert [line.split(" gpus=")[0] for line in heard[1:]] == [
        "heard worker 0",
        "heard worker 1",
        "heard ps 0",
    ]
    assert all(len(line.split("=")[1].split(",")) == 2 for line in heard[1:3])
    assert heard[3] == "heard ps 0 gpus="
    assert fleet.output_lines(server, name, "evaluator-replica-0") == ["evaluator 0 gpus="]


def test_replicas_with_gpus_share_the_one_free_node_and_each_sees_its_own(server, cluster):
    free = cluster.nodes[2]
    others = [node for node in cluster.nodes if node != free]
    with taken(cluster, others, "--gres=gpu:t4:4"):
        name = submit(server, a_job("gang", WHERE, gpus=1, workers=3))
        assert replicas_at(server, name) == [(free, gpu) for gpu in "0123"]


def test_a_gang_waits_in_the_queue_says_why_and_is_placed_when_there_is_room(server, cluster):
    go = cluster.shared / "go-small"
    small = [
        fleet.begun(server, a_job(f"small-{number}", waits_for(go), machine=WHOLE_NODE))
        for number in range(4)
    ]
    gang = submit(server, a_job("gang", machine=WHOLE_NODE, workers=3))
    job = come_to(server, gang, "ENQUEUED")
    why = fleet.wait_until(lambda: fleet.reason(native(server, gang)))
    assert why["reason"] in {"CAPACITY", "ENGINE_QUEUE"}, why
    assert good(server.call("GET", f"/v1/{gang}"))["state"] == "JOB_STATE_QUEUED"
    assert not job["replicas"]
    go.touch()
    assert fleet.ended(server, gang)["state"] == "SUCCEEDED"
    for name in small:
        assert fleet.ended(server, name)["state"] == "SUCCEEDED"


def test_a_job_is_cancelled_while_it_waits_and_while_it_runs(server, cluster):
    go = cluster.shared / "never"
    running = fleet.begun(server, a_job("runs", waits_for(go)))
    fleet.cancel(server, running)
    cluster.run("scontrol", "update", "partitionname=main", "state=down")
    try:
        waiting = submit(server, a_job("waits"))
        fleet.wait_until(lambda: fleet.reason(native(server, waiting)))
        fleet.cancel(server, waiting)
    finally:
        cluster.run("scontrol", "update", "partitionname=main", "state=up")
    cluster.wait_for(lambda: not cluster.jobs())


ODD = "a'b\"c$HOME `id` ;|&*?~ #\n\\ \u00fc \u6f22"
ARRIVED = """\
import hashlib, os, sys
for words in (os.fsencode(sys.argv[1]), os.environb[b"ODD"]):
    print(len(words), hashlib.sha256(words).hexdigest(), flush=True)
"""


@pytest.mark.parametrize("more", [("x" * 100_000, ""), ("", "y" * 100_000)], ids=["args", "env"])
def test_words_of_any_kind_arrive_byte_for_byte(server, more):
    word, text = (ODD + extra for extra in more)  # both are in CLUSTER_SPEC too: 128 KiB a variable
    document = a_job('it\'s "odd" $HOME `id` \u00fc', ARRIVED)
    container = document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    container["args"].append(word)
    container["env"] = [{"name": "ODD", "value": text}]
    name = submit(server, document)
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    assert fleet.output_lines(server, name) == [
        f"{len(sent)} {hashlib.sha256(sent).hexdigest()}" for sent in (word.encode(), text.encode())
    ]
    assert good(server.call("GET", f"/v1/{name}"))["displayName"] == document["displayName"]


def create(gcloud, name, code):
    """A custom job of gcloud's; its full name."""
    pool = f"machine-type={SMALL},replica-count=1,container-image-uri={IMAGE}"
    flags = ("--format", "value(name)", f"--worker-pool-spec={pool}", "--command=python,-c")
    words = ("ai", "custom-jobs", "create", f"--display-name={name}", f"--args=^|^{code}")
    return gcloud(*words, *flags).ok().stdout.strip()


@needs_gcloud
@pytest.mark.full  # conformance has gcloud; the API knows no engine
def test_gcloud_submits_lists_and_cancels(server, gcloud, cluster):
    done = create(gcloud, "by-gcloud", "print('hello')")
    assert server.wait_for(f"/v1/{done}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    output = gcloud("ai", "custom-jobs", "list", "--format", "value(displayName)").ok().stdout
    assert "by-gcloud" in output.split()
    other = create(gcloud, "to-cancel", waits_for(cluster.shared / "never"))
    fleet.running(server, other)
    gcloud("ai", "custom-jobs", "cancel", other).ok()
    assert server.wait_for(f"/v1/{other}", FINAL)["state"] == "JOB_STATE_CANCELLED"


@pytest.mark.full  # the command is started anew, and looks every few seconds
@needs_gcloud
def test_gcloud_streams_the_log_of_a_node(server, real_gcloud):
    name = create(real_gcloud, "streamed", "print('hello from a node')")
    words = ("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1")
    assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    assert real_gcloud(*words).ok().stdout.count("hello from a node") == 1


@pytest.mark.full  # as above
@needs_gcloud
def test_gcloud_drives_a_job_of_ai_platform(server, real_gcloud, cluster):
    jobs = partial(real_gcloud, "ai-platform", "jobs")
    submit(server, ml_job("ml_streamed"))
    streamed = jobs("stream-logs", "ml_streamed", "--polling-interval=1").ok()
    assert "trained" in streamed.stdout + streamed.stderr
    described = jobs("describe", "ml_streamed", "--format=value(state)").ok().stdout
    assert described.strip() == "SUCCEEDED"
    waiting = ml_job("ml_cancelled", waits_for(cluster.shared / "never"))
    other = fleet.begun(server, waiting)
    output = jobs("list", "--format=value(jobId)").ok().stdout
    assert {"ml_streamed", "ml_cancelled"} <= set(output.split())
    jobs("cancel", "ml_cancelled").ok()
    assert fleet.ended(server, other)["state"] == "CANCELLED"


@pytest.mark.full  # the SDK looks every few seconds
def test_the_vertex_sdk_runs_a_job(server):
    python = python_of(SDKS["newest"])
    code = "print('hello from the SDK')"
    done = subprocess.run(
        [python, "-W", "ignore", VERTEX_RUN, server.url, server.token, code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "RETURNED JOB_STATE_SUCCEEDED" in done.stdout, done.stderr[-2000:]


def test_every_attempt_has_had_one_allocation(server, cluster):
    """Of all tests of this file."""
    ours = f"ts-{(server.data_dir / 'installation').read_text().strip()}-"
    names = [name for name in allocations(cluster) if name.startswith(ours)]
    assert len(set(names)) == len(names) > 0
