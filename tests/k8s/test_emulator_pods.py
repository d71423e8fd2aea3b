"""Pods of the emulator as processes: namespaces, volumes, users, ends, and nodes that die."""

import base64
import signal
from pathlib import Path

import pytest

from k8s.emulator.pods.cgroups import find_parent
from k8s.emulator.pods.environment import build_environment, expand
from k8s.emulator.pods.images import ContainerImage, explain_bad_name
from k8s.emulator.pods.pod_status import phase_of
from k8s.emulator.pods.runtime import explain_absence
from k8s.http_calls import Caller
from k8s.live_cluster import running_cluster, shell
from k8s.recorded import read_trace
from k8s.static_image import make_static_image


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := explain_absence():
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$(A", "$(A"),
        ("cost: $5 $", "cost: $5 $"),
        ("$$$(A)", "$1"),
        ("$()", "$()"),
    ],
)
def test_references_are_replaced_by_kubernetes_rules(text, expanded):
    assert expand(text, {"A": "1"}) == expanded


def test_variables_are_those_of_the_recorded_logs():
    pods, logs = {}, {}
    pod = ""
    for record in read_trace("o"):
        if record["rec"] == "watch" and record["kind"] == "Pod":
            pods[record["object"]["metadata"]["name"]] = record["object"]
        elif record["rec"] == "request":
            pod = record["path"].split("/")[-2]
        elif record["rec"] == "response" and "text" in record:
            logs[pod] = record["text"]
    assert len(logs) == 5
    for name, log in logs.items():
        values = build_environment(pods[name], pods[name]["spec"]["containers"][0], lambda *_: None)
        recorded = dict(line.split(" = ", 1) for line in log.splitlines() if " = " in line)
        assert values == recorded
        argument = expand(pods[name]["spec"]["containers"][0]["command"][-1], values)
        assert f"argv ['{argument}']" in log


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("localhost/trainer:1", ""),
        ("trainer", ""),
        ("host:5000/team/trainer@sha256:" + "0" * 64, ""),
        ("Team//Trainer:9", "repository name (/Trainer) must be lowercase"),
        ("trainer:", "invalid reference format"),
    ],
)
def test_names_that_no_image_can_have_are_refused(name, words):
    reason = explain_bad_name(name)
    assert words in reason
    assert bool(words) == bool(reason)


def test_containers_of_a_pod_share_its_network_and_have_a_root_of_their_own(cluster):
    listener = (
        "import os, socket; s = socket.create_server(('127.0.0.1', 8000)); open('/flag/up', 'w');"
        "s.accept(); print(os.getpid(), socket.gethostname(), os.path.exists('/tmp/mine'))"
    )
    client = (
        "touch /tmp/mine; while [ ! -e /flag/up ]; do sleep 0.05; done; "
        "exec 3<>/dev/tcp/127.0.0.1/8000; echo $$$$ $(hostname)"
    )
    python = {"name": "c0", "image": "localhost/machine:1", "command": ["python3", "-c", listener]}
    bash = {**shell(client, name="c1"), "command": ["/bin/bash", "-c", client]}
    for row in (python, bash):
        row["volumeMounts"] = [{"name": "flag", "mountPath": "/flag"}]
    cluster.create_pod(
        "shared", python, bash, hostname="host-a", volumes=[{"name": "flag", "emptyDir": {}}]
    )
    cluster.wait_for_phase("shared", "Succeeded")
    assert cluster.log("shared") == "1 host-a False\n"
    assert cluster.log("shared", "c1") == "1 host-a\n"


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        (["running", "running"], "Running"),
        (["running", "waiting"], "Pending"),
        (["running", 3], "Running"),
        ([0, 0], "Succeeded"),
        ([0, 3], "Failed"),
    ],
)
def test_a_pods_phase_follows_all_its_containers(states, phase):
    rows = [{word: {}} if isinstance(word, str) else exit_of(word) for word in states]
    assert phase_of(rows) == phase


def exit_of(code):
    return {"terminated": {"exitCode": code}}


def test_volumes_are_where_the_manifest_has_them(cluster):
    folder = cluster.add_claim("spool")
    (folder / "lib").mkdir()
    (folder / "lib" / "file").write_text("from the claim\n")
    script = """\
cat /lib-of-claim/file; touch /lib-of-claim/new || echo read-only; echo data > /out/sub/result
stat -f -c %T /memory /scratch; cat /run/secret/key; stat -c %a /run/secret/key
"""
    mounts = [
        {"name": "claim", "mountPath": "/lib-of-claim", "subPath": "lib", "readOnly": True},
        {"name": "claim", "mountPath": "/out/sub", "subPath": "jobs/one"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "secret", "mountPath": "/run/secret"},
    ]
    volumes = [
        {"name": "claim", "persistentVolumeClaim": {"claimName": "spool"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "secret", "secret": {"secretName": "words", "defaultMode": 0o400}},
    ]
    create_secret(cluster, "words", key="hidden\n")
    cluster.create_pod("volumes", shell(script, volumeMounts=mounts), volumes=volumes)
    assert cluster.end_of("volumes")["exitCode"] == 0
    lines = cluster.log("volumes").splitlines()
    assert lines[0] == "from the claim"
    assert lines[2:4] == ["read-only", "tmpfs"]
    assert lines[5:] == ["hidden", "400"]
    assert (folder / "jobs" / "one" / "result").read_text() == "data\n"


def create_secret(cluster, name, **values):
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    meta = {"name": name, "namespace": "default"}
    cluster.store.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def test_a_container_waits_for_its_secret_and_starts_when_it_comes(cluster):
    reference = {"secretKeyRef": {"name": "late", "key": "secret"}}
    container = shell("echo $WORD", env=[{"name": "WORD", "valueFrom": reference}])
    cluster.create_pod("waits", container)
    cluster.wait_for(
        lambda: (
            waiting_of(cluster, "waits")
            == ("CreateContainerConfigError", 'secret "late" not found')
        )
    )
    create_secret(cluster, "late", secret="hush")
    assert cluster.end_of("waits")["reason"] == "Completed"
    assert cluster.log("waits") == "hush\n"


def waiting_of(cluster, name):
    rows = cluster.pod(name)["status"].get("containerStatuses") or [{"state": {}}]
    waiting = rows[0]["state"].get("waiting") or {}
    return waiting.get("reason"), waiting.get("message")


def test_an_image_is_pulled_again_until_it_is_there(cluster):
    name = "registry.example/later:1"
    cluster.create_pod("pulls", shell("echo pulled", image=name))
    cluster.wait_for(lambda: waiting_of(cluster, "pulls")[0] == "ImagePullBackOff")
    cluster.images.add(name, ContainerImage(Path("/")))
    assert cluster.end_of("pulls")["exitCode"] == 0


def test_an_image_may_be_empty_but_for_a_static_program(cluster, tmp_path):
    image = make_static_image(tmp_path, "no library here", status=7)
    cluster.images.add("localhost/empty:1", image)
    cluster.create_pod("static", {"name": "c0", "image": "localhost/empty:1"})
    assert cluster.end_of("static")["exitCode"] == 7
    assert cluster.log("static") == "no library here\n"


def test_a_program_that_is_not_there_ends_with_128(cluster):
    cluster.create_pod("absent", {**shell(""), "command": ["/no/such/binary"]})
    end = cluster.end_of("absent")
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert end["message"].endswith(
        'exec: "/no/such/binary": stat /no/such/binary: no such file or directory: unknown'
    )
    cluster.create_pod("absent-too", {**shell(""), "command": ["no-such-program"]})
    assert "executable file not found in $PATH" in cluster.end_of("absent-too")["message"]


def test_a_program_runs_as_the_user_of_the_manifest(cluster):
    script = "id -u; id -g; id -G; grep CapBnd /proc/self/status; pwd"
    security = {"runAsUser": 1234, "runAsGroup": 2345, "capabilities": {"drop": ["ALL"]}}
    container = shell(script, securityContext=security, workingDir="/work dir")
    cluster.create_pod("user", container, securityContext={"fsGroup": 3456})
    cluster.wait_for_phase("user", "Succeeded")
    lines = cluster.log("user").splitlines()
    assert lines[:2] == ["1234", "2345"]
    assert set(lines[2].split()) == {"2345", "3456"}
    assert lines[3:] == ["CapBnd:\t0000000000000000", "/work dir"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ('trap "exit 143" TERM; echo up; while :; do sleep 0.02; done', 143),
        ('trap "" TERM; echo up; while :; do sleep 0.02; done', 137),
        ("echo up; exec sleep 600", 137),
    ],
)
def test_a_deleted_pod_gets_a_grace_period(cluster, script, code):
    name = f"graceful-{abs(hash(script))}"
    ends = record_ends(cluster, name)
    cluster.create_pod(name, script)
    cluster.wait_for(lambda: cluster.log(name) == "up\n")
    cluster.store.delete("Pod", "default", name)
    cluster.wait_for_removal("Pod", name)
    assert ends[-1] == ("Failed", code)


def record_ends(cluster, name):
    """Phases and exit codes of a pod that goes."""
    ends = []

    def note(_change, obj):
        if obj["kind"] == "Pod" and obj["metadata"]["name"] == name:
            rows = obj["status"].get("containerStatuses") or ()
            codes = [(row["state"].get("terminated") or {}).get("exitCode") for row in rows]
            ends.extend((obj["status"]["phase"], code) for code in codes)

    cluster.store.subscribe(note)
    return ends


def test_a_log_is_read_through_the_api_while_it_grows(cluster):
    script = "echo one; while [ ! -e /flag/go ]; do sleep 0.02; done; echo two"
    mounts = [{"name": "flag", "mountPath": "/flag"}]
    folder = cluster.add_claim("flags")
    volumes = [{"name": "flag", "persistentVolumeClaim": {"claimName": "flags"}}]
    cluster.create_pod("logs", shell(script, volumeMounts=mounts), volumes=volumes)
    cluster.wait_for_phase("logs", "Running")
    path = "/api/v1/namespaces/default/pods/logs/log"
    cluster.wait_for(lambda: Caller(cluster.api).call("GET", path).text == "one\n")
    (folder / "go").touch()
    assert Caller(cluster.api).call("GET", path, follow="true").text == "one\ntwo\n"
    assert Caller(cluster.api).call("GET", path, tailLines="1").text == "two\n"


def test_a_signal_is_an_exit_code(cluster):
    code = "import ctypes; ctypes.string_at(0)"
    cluster.create_pod("segv", {**shell(""), "command": ["python3", "-c", code]})
    end = cluster.end_of("segv")
    assert (end["exitCode"], end["reason"]) == (128 + signal.SIGSEGV, "Error")


def test_a_container_over_its_memory_is_killed(cluster):
    if find_parent() is None:
        pytest.skip(
            "no memory control group may be made here: run as root, with a writable cgroup2"
        )
    code = "x = bytearray(300 << 20); print(len(x))"
    limits = {"limits": {"memory": "64Mi"}}
    cluster.create_pod(
        "oom", {**shell(""), "command": ["python3", "-c", code], "resources": limits}
    )
    end = cluster.end_of("oom")
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled")


def test_programs_that_a_container_leaves_behind_end_with_it(cluster):
    cluster.create_pod("leaves", "sleep 600 & echo started")
    cluster.wait_for_phase("leaves", "Succeeded")
    (pid,) = cluster.runtime.list_pids(cluster.pod("leaves")["metadata"]["uid"]).values()
    assert not Path(f"/proc/{pid}").exists()


def test_pods_of_a_dead_node_fail_only_when_the_node_object_goes(cluster):
    cluster.add_node("node-2", labels={"pool": "second"})
    cluster.create_pod("lost", "echo up; exec sleep 600", nodeSelector={"pool": "second"})
    cluster.wait_for_phase("lost", "Running")
    (pid,) = cluster.runtime.list_pids(cluster.pod("lost")["metadata"]["uid"]).values()
    cluster.plane.kill_node("node-2")
    cluster.wait_for(lambda: not Path(f"/proc/{pid}").exists())
    cluster.wait_for(lambda: "deletionTimestamp" in cluster.pod("lost")["metadata"])
    assert cluster.phase("lost") == "Running"
    cluster.store.delete("Node", None, "node-2")
    cluster.wait_for_removal("Pod", "lost")


def test_a_drained_node_gives_its_pods_a_reason(cluster):
    cluster.add_node("node-3", labels={"pool": "third"})
    cluster.create_pod("drained", "echo up; exec sleep 600", nodeSelector={"pool": "third"})
    cluster.wait_for_phase("drained", "Running")
    reasons = []

    def note(_change, obj):
        if obj["metadata"]["name"] == "drained" and obj["kind"] == "Pod":
            rows = obj["status"].get("conditions") or ()
            reasons.extend(row["reason"] for row in rows if row["type"] == "DisruptionTarget")

    cluster.store.subscribe(note)
    cluster.plane.drain("node-3")
    cluster.wait_for_removal("Pod", "drained")
    assert set(reasons) == {"EvictionByEvictionAPI"}


def test_a_jobset_runs_and_its_pods_find_one_another_by_name(cluster):
    """The workers end with the primary, whose end is the JobSet's."""
    primary = (
        "for i in 0 1; do until getent hosts run-worker-0-$i.run; do sleep 0.05; done; done; "
        "getent hosts run-worker-0-0.run.default.svc.cluster.local; hostname; "
        "echo rank $JOB_COMPLETION_INDEX"
    )
    worker = "echo rank $JOB_COMPLETION_INDEX; exec sleep 600"
    roles = [role("primary", 1, primary), role("worker", 2, worker)]
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": "run"},
        "replicatedJobs": roles,
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["primary"]},
        "failurePolicy": {"maxRestarts": 0},
    }
    meta = {"name": "run", "namespace": "default"}
    cluster.store.create(
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}
    )
    cluster.wait_for(lambda: jobset_end(cluster, "run") == "Completed")
    (pod,) = [row for row in pods_of(cluster, "run") if "primary" in row]
    lines = cluster.log(pod, "main").splitlines()
    assert [line.split()[0].rpartition(".")[0] for line in lines[:3]] == ["10.244.0"] * 3
    assert lines[3:] == ["run-primary-0-0", "rank 0"]
    cluster.wait_for(lambda: pods_of(cluster, "run") == [pod])
    cluster.store.delete("JobSet", "default", "run", propagation="Foreground")
    cluster.wait_for_removal("JobSet", "run")
    assert pods_of(cluster, "run") == []


def role(name, count, script):
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    pod["containers"] = [shell(script, name="main")]
    job = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def jobset_end(cluster, name):
    return cluster.store.get("JobSet", "default", name).get("status", {}).get("terminalState")


def pods_of(cluster, jobset):
    rows, _ = cluster.store.list("Pod", "default", f"jobset.sigs.k8s.io/jobset-name={jobset}")
    return [row["metadata"]["name"] for row in rows]
