"""The Job controller: what it concludes from pods, and what it does about them."""

import pytest

from k8s.emulator.controllers.job import compose_pod
from k8s.emulator.controllers.job_plan import (
    INDEX,
    find_failure,
    format_indexes,
    match_pod_failure_policy,
    observe_job,
    parse_indexes,
)
from k8s.emulator.controllers.objects import TRACKING_FINALIZER, parse_quantity
from k8s.manifests import OBEYS, STUBBORN, job_role, jobset
from k8s.scripted_cluster import IMAGE, ScriptedCluster

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.fixture
def cluster():
    scripted = ScriptedCluster()
    scripted.add_node()
    return scripted


def a_job(*, completions=2, status=None, **spec):
    meta = {"name": "j", "namespace": "n", "uid": "u"}
    spec = {"parallelism": completions, "completions": completions, "backoffLimit": 0, **spec}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def a_pod(  # noqa: PLR0913 - what a test says of a pod
    index, phase, *, code=None, conditions=(), is_deleting=False, is_tracked=True
):
    meta = {
        "name": f"j-{index}",
        "namespace": "n",
        "uid": f"p{index}",
        "labels": {INDEX: str(index)},
    }
    if is_tracked:
        meta["finalizers"] = [TRACKING_FINALIZER]
    if is_deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": phase, "conditions": list(conditions)}
    if code is not None:
        status["containerStatuses"] = [
            {"name": "main", "state": {"terminated": {"exitCode": code}}}
        ]
    return {"metadata": meta, "status": status}


@pytest.mark.parametrize(
    ("text", "indexes"), [("", []), ("0", [0]), ("0,1", [0, 1]), ("0-2,5,7,8", [0, 1, 2, 5, 7, 8])]
)
def test_indexes_are_written_as_runs(text, indexes):
    assert format_indexes(indexes) == text
    assert parse_indexes(text) == set(indexes)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("500m", 0.5), ("64Mi", 64 << 20), ("1k", 1000), (3, 3), ("1.5G", 1.5e9)],
)
def test_quantities_are_numbers(text, value):
    assert parse_quantity(text) == value


def test_a_pod_that_goes_counts_as_failed_unless_a_policy_waits_for_its_end():
    pods = [a_pod(0, "Running", is_deleting=True), a_pod(1, "Running")]
    facts = observe_job(a_job(), pods, 0.0)
    assert [pod["metadata"]["uid"] for pod in facts.failed] == ["p0"]
    assert facts.failure.reason == "BackoffLimitExceeded"
    waiting = observe_job(a_job(podReplacementPolicy="Failed"), pods, 0.0)
    assert (waiting.failed, waiting.failure, waiting.missing) == ((), None, ())


def test_a_failure_is_counted_once():
    pod = a_pod(0, "Failed", code=3, is_tracked=False)
    assert observe_job(a_job(status={"failed": 1}, backoffLimit=1), [pod], 0.0).failure is None


def test_all_indexes_must_succeed():
    pods = [a_pod(0, "Succeeded"), a_pod(1, "Running")]
    assert not observe_job(a_job(), pods, 0.0).is_complete
    assert observe_job(a_job(status={"completedIndexes": "1"}), pods[:1], 0.0).is_complete


def test_a_job_is_active_for_its_deadline():
    job = a_job(activeDeadlineSeconds=5, status={"startTime": "1970-01-01T00:00:10Z"})
    assert find_failure(job, (), 14.9) is None
    assert find_failure(job, (), 15.0).reason == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("rule", "pod", "message"),
    [
        (
            {"onPodConditions": [DISRUPTED]},
            a_pod(0, "Failed", conditions=[DISRUPTED]),
            "Pod n/j-0 has condition DisruptionTarget matching FailJob rule at index 0",
        ),
        (
            {"onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [0]}},
            a_pod(0, "Failed", code=7),
            "Container main for pod n/j-0 failed with exit code 7 matching FailJob rule at index 0",
        ),
        ({"onExitCodes": {"operator": "In", "values": [3]}}, a_pod(0, "Failed", code=7), None),
        ({"onPodConditions": [DISRUPTED]}, a_pod(0, "Failed", code=7), None),
    ],
)
def test_a_rule_fails_a_job_for_a_condition_or_an_exit_code(rule, pod, message):
    job = a_job(podFailurePolicy={"rules": [{"action": "FailJob", **rule}]})
    assert match_pod_failure_policy(job, [pod]) == message


def test_a_namespaces_quota_keeps_pods_away_and_the_job_says_so(cluster):
    spec = {"hard": {"pods": "1"}}
    meta = {"name": "q", "namespace": "default"}
    cluster.store.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}
    )
    roles = job_role("primary", "sleep 6"), job_role("worker", OBEYS)
    cluster.store.create(jobset("q", *roles))
    cluster.run(8.0)
    failed = [
        message for reason, message in cluster.events("q-worker-0") if reason == "FailedCreate"
    ]
    assert len(failed) == 4, "at once, and after 1, 2 and 4 seconds"
    assert (
        "is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
        in failed[0]
    )
    cluster.run(4.0)
    assert cluster.get("JobSet", "q")["status"]["terminalState"] == "Completed"


def test_a_pod_that_fails_is_replaced_within_the_limit(cluster):
    script = 'if [ "$RESTART_ATTEMPT" = 0 ]; then exit 3; else sleep 5; fi'
    cluster.store.create(jobset("r", job_role("primary", script, backoffLimit=1)))
    cluster.run(8.0)
    assert [pod["status"]["phase"] for pod in cluster.list("Pod")] == ["Failed"]
    cluster.run(8.0)
    assert [pod["status"]["phase"] for pod in cluster.list("Pod")] == ["Failed", "Failed"]
    cluster.run(4.0)
    assert cluster.get("Job", "r-primary-0")["status"]["failed"] == 2


def test_pods_get_names_hosts_and_an_index(cluster):
    cluster.store.create(
        jobset("n", job_role("primary", OBEYS), job_role("worker", OBEYS, count=2))
    )
    cluster.run(3.0)
    pods = {pod["metadata"]["generateName"]: pod for pod in cluster.list("Pod")}
    assert set(pods) == {"n-primary-0-0-", "n-worker-0-0-", "n-worker-0-1-"}
    pod = pods["n-worker-0-1-"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("n-worker-0-1", "n")
    uid = pod["metadata"]["uid"]
    assert cluster.runtime.orders[uid, "main"].env["JOB_COMPLETION_INDEX"] == "1"
    hosts = cluster.runtime.hosts[uid]
    assert hosts.count("n-worker-0-0.n.default.svc.cluster.local") == 1
    assert hosts.count("n-primary-0-0.n ") == 1


def test_a_job_waits_for_its_slowest_pod_before_it_says_failed(cluster):
    script = 'if [ "$RESTART_ATTEMPT" = 1 ] && [ "$JOB_COMPLETION_INDEX" = 0 ]; then sleep 1; fi; '
    cluster.store.create(
        jobset("w", job_role("primary", OBEYS), job_role("worker", script + STUBBORN, count=2))
    )
    cluster.run(3.0)
    names = [
        pod["metadata"]["name"]
        for pod in cluster.list("Pod")
        if "worker" in pod["metadata"]["name"]
    ]
    cluster.store.delete("Pod", "default", names[0])
    cluster.run(2.0)
    types = {row["type"] for row in cluster.get("Job", "w-worker-0")["status"]["conditions"]}
    assert types == {"FailureTarget"}
    cluster.run(4.0)
    types = {row["type"] for row in cluster.get("Job", "w-worker-0")["status"]["conditions"]}
    assert types == {"FailureTarget", "Failed"}


def test_a_pod_that_comes_after_its_job_is_gone_goes_too(cluster):
    job = cluster.store.create(jobset("j", job_role("primary", OBEYS)))
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": IMAGE}]}}}
    gone = {**job, "apiVersion": "batch/v1", "kind": "Job", "spec": spec}
    cluster.store.delete("JobSet", "default", "j")
    cluster.run(3.0)
    cluster.store.create(compose_pod(gone, 0))
    cluster.run(5.0)
    assert cluster.list("Pod") == []
