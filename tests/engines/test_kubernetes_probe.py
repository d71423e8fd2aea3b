"""What the answers of a probe's pods say, and the JobSet that starts them."""

import json
from dataclasses import replace

import pytest

from engines.kubernetes_requests import START, read_options
from trainshed.engines.kubernetes.nodes import ClusterNode
from trainshed.engines.kubernetes.probing import cluster, task
from trainshed.engines.kubernetes.probing.answers import ProbeAnswer, judge_answers, measure_delays
from trainshed.engines.kubernetes.probing.exchange import ProbeExchange
from trainshed.engines.kubernetes.probing.obstacles import find_probe_obstacle
from trainshed.engines.kubernetes.probing.pods import CONTAINERS, ProbeTarget, compose_probe
from trainshed.engines.kubernetes.request import PodRuntime
from trainshed.engines.kubernetes.start_check import ClusterFacts
from trainshed.engines.kubernetes.state.facts import (
    ContainerFacts,
    JobSetFacts,
    KubernetesFacts,
    ObjectCondition,
    PodFacts,
)
from trainshed.model.attempt import AttemptKey

SERVER = 1000
ANSWER = ProbeAnswer("n1", SERVER, SERVER, 100.0, 100.2, 100.5, "10.0.0.1", 0.1)
RUNTIME = PodRuntime(start=START, archive="/a.pyz", architecture="amd64", user=SERVER, group=SERVER)


@pytest.mark.parametrize(
    ("greeted_s", "received_s", "replied_s", "delays"),
    [
        (100.0, 100.2, 100.5, (0.2, 0.3, 0.0)),
        # the pod's clock is 60 s behind: the reply would be visible before it was written
        (40.0, 100.2, 40.5, (0.5, 0.0, 59.7)),
        # the pod's clock is 60 s ahead: the greeting would be visible before it was written
        (160.0, 100.2, 160.5, (0.0, 0.5, 59.8)),
        (100.0, 100.2, None, (0.2, float("inf"), 0.0)),
    ],
)
def test_delays_and_clocks(greeted_s, received_s, replied_s, delays):
    answer = ANSWER._replace(greeted_s=greeted_s, received_s=received_s, replied_s=replied_s)
    assert measure_delays(answer) == pytest.approx(delays)


def judge(**changed):
    answers = {name: ANSWER._replace(**changed.get(name, {})) for name in CONTAINERS}
    findings = judge_answers(answers, posted_s=98.0, server_user=SERVER)
    return {finding.check: finding for finding in findings}


def test_answers_that_are_well():
    findings = judge()
    assert all(finding.is_well for finding in findings.values())
    assert findings["first line"].found == "2.20 s after the POST of the JobSet"
    assert findings["shared claim, seen from a pod"].found.endswith("after 0.3 s")
    assert findings["shared claim, seen from the server"].found.endswith("after 0.2 s")


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        ({"worker": {"node": "n2", "received_s": 107.0, "replied_s": 107.1}},
         "shared claim, seen from the server", "on n2 after 7.0 s"),
        ({"worker": {"node": "n2", "replied_s": 109.0}},
         "shared claim, seen from a pod", "on n2 saw a new file of the server after 8.8 s"),
        ({"launcher": {"node": "n2", "replied_s": None}},
         "shared claim, seen from a pod", "not in time"),
        ({"launcher": {"owner": 65534}}, "owner of files", "sees the user 65534"),
        ({"launcher": {"user": 0}}, "owner of files", "launchers run as the user 0"),
        ({"primary": {"node": "n2", "greeted_s": 40.0, "replied_s": 40.5}},
         "clock", "the clock of n2 differs by at least 59.7 s"),
        ({"primary": {"node": "n2", "address": "", "resolve_s": 60.0}},
         "names of pods", "a pod on n2 could not resolve"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_well_is_named(changed, check, words):
    findings = judge(**changed)
    assert [name for name, finding in findings.items() if not finding.is_well] == [check]
    assert words in findings[check].found
    assert findings[check].advice


def test_the_jobset_is_that_of_a_job_with_other_programs_and_no_secret():
    options = read_options(
        probe_image="pause:3",
        queue="q",
        image_pull_secrets=["registry"],
        node_selector={"pool": "a"},
        security={"run_as_user": 7},
    )
    jobset = compose_probe(ProbeTarget(options, "abc", "ml", RUNTIME), "ts-probe-1")
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    text = json.dumps(jobset)
    assert "trainshed.dev/installation" not in text
    assert "secretKeyRef" not in text
    for job in jobset["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"pool": "a", "kubernetes.io/arch": "amd64"}
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        for container in pod["containers"]:
            mounts = {row["mountPath"]: row["subPath"] for row in container["volumeMounts"]}
            assert mounts == {"/trainshed/lib": "abc/lib", "/trainshed/attempt": "abc/ts-probe-1"}


def test_answers_that_are_no_documents_are_no_answers(tmp_path):
    exchange = ProbeExchange(tmp_path / "probe")
    exchange.open()
    folder = tmp_path / "probe"
    secret = tmp_path / "secret"
    secret.write_text('{"node": "n", "user": 0, "at_s": 0}')
    folder.joinpath("greeting-primary.json").symlink_to(secret)
    folder.joinpath("greeting-worker.json").write_text("[]")
    folder.joinpath("greeting-launcher.json").write_text('{"node": "n"}')
    folder.joinpath("answer-primary.json").write_text("{}")
    exchange.look()
    exchange.look()
    assert not exchange.answers
    assert not [path for path in folder.iterdir() if path.name.startswith("reply-")]
    exchange.close()
    assert not folder.exists()


def test_the_task_and_the_server_exchange_files(tmp_path, monkeypatch):
    exchange = ProbeExchange(tmp_path / "probe")
    exchange.open()
    folder = str(tmp_path / "probe")
    monkeypatch.setattr(task.time, "sleep", lambda _: exchange.look())
    for name in CONTAINERS:
        task.run(folder, name, "" if name == "launcher" else "localhost")
    assert exchange.is_complete
    assert exchange.answers["primary"].address
    assert not exchange.answers["launcher"].address
    assert all(answer.replied_s is not None for answer in exchange.answers.values())


FACTS = ClusterFacts(namespace="ml", claim="c", jobset_versions=("v1alpha2",))


@pytest.mark.parametrize(
    ("facts", "queues", "is_well", "words"),
    [
        (FACTS, [], True, "not known"),
        (replace(FACTS, kueue_versions=()), [], True, "not in the cluster; no queue is set"),
        (replace(FACTS, kueue_versions=()), ["q"], False, "the queues of the settings are q"),
        (replace(FACTS, kueue_versions=("v1beta1",)), ["q"], True, "v1beta1"),
    ],
)
def test_kueue(facts, queues, is_well, words):
    (finding,) = cluster.judge_queues(facts, queues)
    assert (finding.is_well, words in finding.found) == (is_well, True), finding


def test_nodes_of_another_architecture_run_no_job():
    rows = [
        ClusterNode(f"n{number}", {"kubernetes.io/arch": name}, 4.0, 8.0, 0, "any", is_open)
        for number, (name, is_open) in enumerate([("arm64", True), ("amd64", False)])
    ]
    finding = cluster.judge_nodes(rows, "amd64")
    assert not finding.is_well
    assert finding.found.startswith("0 of 2 nodes")
    assert cluster.judge_nodes(rows, "arm64").is_well


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("StartError", "primary-0 cannot start on the node n1: permission denied; check that"),
        ("Error", "primary-0 ended with exit code 1, Error); check that pods can write"),
    ],
)
def test_a_failed_jobset_says_why_its_pods_did_not_answer(ended, words):
    container = ContainerFacts("main", ended=ended, exit_code=1, message="permission denied")
    pod = PodFacts("p", "u", "primary", 0, phase="Failed", node="n1", containers=(container,))
    condition = ObjectCondition(True, "ReachedMaxRestarts", "jobset failed")
    jobset = JobSetFacts("p", "u", "ml", replicas={"primary": 1}, conditions={"Failed": condition})
    facts = KubernetesFacts(key=AttemptKey(0, 1), name="p", uid="u", jobset=jobset, pods=(pod,))
    obstacle = find_probe_obstacle(facts, 1.0)
    assert not obstacle.heals
    assert words in obstacle.explanation.message
