"""The JobSet controller: its failure policy, restarts, suspension, and Jobs that are refused."""

import pytest

from k8s.emulator.controllers.jobset_plan import decide_failure, is_successful
from k8s.manifests import OBEYS, job_role, jobset
from k8s.scripted_cluster import ScriptedCluster

FIRST = "(first failed job: s-worker-0)"


@pytest.fixture
def cluster():
    scripted = ScriptedCluster()
    scripted.add_node()
    return scripted


def a_failed_job(reason="PodFailurePolicy", message="Pod n/p has condition DisruptionTarget"):
    row = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    meta = {"name": "s-worker-0", "namespace": "n"}
    meta["labels"] = {"jobset.sigs.k8s.io/replicatedjob-name": "worker"}
    return {"metadata": meta, "status": {"conditions": [row]}}


@pytest.mark.parametrize(
    ("policy", "counted", "reason", "is_restart"),
    [
        (None, 0, "FailedJobs", False),
        ({"maxRestarts": 0}, 0, "ReachedMaxRestarts", False),
        ({"maxRestarts": 1}, 0, "DefaultFailurePolicy", True),
        ({"maxRestarts": 1}, 1, "ReachedMaxRestarts", False),
        (
            {"rules": [{"name": "r", "action": "FailJobSet"}]},
            0,
            "FailJobSetFailurePolicyAction",
            False,
        ),
        (
            {"rules": [{"name": "r", "action": "RestartJobSetAndIgnoreMaxRestarts"}]},
            0,
            "FailurePolicy_r",
            True,
        ),
        (
            {
                "rules": [
                    {
                        "name": "r",
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["DeadlineExceeded"],
                    }
                ]
            },
            0,
            "ReachedMaxRestarts",
            False,
        ),
        (
            {
                "rules": [
                    {"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": ["(["]}
                ]
            },
            0,
            "ReachedMaxRestarts",
            False,
        ),
        (
            {"rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["ps"]}]},
            0,
            "ReachedMaxRestarts",
            False,
        ),
    ],
)
def test_the_first_rule_that_matches_decides(policy, counted, reason, is_restart):
    body = jobset("s", job_role("primary", OBEYS))
    body["spec"]["failurePolicy"] = policy
    body["status"] = {"restartsCountTowardsMax": counted}
    action = decide_failure(body, a_failed_job())
    assert (action.reason, action.is_restart) == (reason, is_restart)
    assert action.message.endswith(FIRST)


@pytest.mark.parametrize(
    ("operator", "ended", "expected"),
    [
        ("All", [], False),
        ("All", ["primary"], False),
        ("All", ["primary", "ps"], True),
        ("Any", ["ps"], True),
    ],
)
def test_success_is_that_of_its_targets(operator, ended, expected):
    body = jobset("s", *(job_role(name, OBEYS) for name in ("primary", "ps", "worker")))
    body["spec"]["successPolicy"] = {
        "operator": operator,
        "targetReplicatedJobs": ["primary", "ps"],
    }
    row = {"type": "Complete", "status": "True"}
    jobs = [
        {
            "metadata": {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": name}},
            "status": {"conditions": [row] if name in ended else []},
        }
        for name in ("primary", "ps", "worker")
    ]
    assert is_successful(body, jobs) == expected


def test_a_suspended_jobset_has_jobs_and_no_pods_until_it_is_resumed(cluster):
    cluster.store.create(jobset("g", job_role("primary", "sleep 2"), suspend=True))
    cluster.run(5.0)
    assert cluster.list("Pod") == []
    assert conditions_of(cluster, "JobSet", "g") == {"Suspended": ("True", "SuspendedJobs")}
    assert conditions_of(cluster, "Job", "g-primary-0") == {"Suspended": ("True", "JobSuspended")}
    set_suspended(cluster, "g", is_suspended=False)
    cluster.run(1.0)
    set_suspended(cluster, "g", is_suspended=True)
    cluster.run(6.0)
    assert cluster.list("Pod") == []
    assert cluster.get("JobSet", "g")["status"]["restarts"] == 0
    set_suspended(cluster, "g", is_suspended=False)
    cluster.run(8.0)
    assert conditions_of(cluster, "JobSet", "g") == {
        "Suspended": ("False", "ResumeJobs"),
        "Completed": ("True", "AllJobsCompleted"),
    }


def set_suspended(cluster, name, *, is_suspended):
    def change(obj):
        obj["spec"]["suspend"] = is_suspended

    cluster.store.modify("JobSet", "default", name, change)


def conditions_of(cluster, kind, name):
    rows = cluster.get(kind, name)["status"].get("conditions") or ()
    return {row["type"]: (row["status"], row["reason"]) for row in rows}


def test_jobs_that_the_api_refuses_do_not_keep_the_others_from_completing(cluster):
    worker = job_role("worker", OBEYS)
    worker["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    cluster.store.create(jobset("k", job_role("primary", "sleep 2"), worker))
    cluster.run(8.0)
    assert conditions_of(cluster, "JobSet", "k") == {"Completed": ("True", "AllJobsCompleted")}
    reasons = dict(cluster.events("k"))
    assert reasons["JobCreationFailed"] == (
        'job "k-worker-0" creation failed with error: Job.batch "k-worker-0" is invalid: '
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    )


def test_a_restart_makes_all_jobs_anew_and_counts(cluster):
    script = 'if [ "$RESTART_ATTEMPT" = 0 ]; then exit 3; else sleep 5; fi'
    roles = job_role("primary", script), job_role("worker", OBEYS)
    cluster.store.create(jobset("c", *roles, max_restarts=1))
    cluster.run(1.0)
    before = {job["metadata"]["uid"] for job in cluster.list("Job")}
    cluster.run(25.0)
    status = cluster.get("JobSet", "c")["status"]
    assert (status["restarts"], status["terminalState"]) == (1, "Completed")
    after = {job["metadata"]["uid"] for job in cluster.list("Job")}
    assert len(before) == 2
    assert not before & after


def test_a_deleted_jobset_takes_its_jobs_pods_and_service_along(cluster):
    cluster.store.create(
        jobset("d", job_role("primary", OBEYS), job_role("worker", OBEYS, count=3))
    )
    cluster.run(3.0)
    cluster.store.delete("JobSet", "default", "d", propagation="Foreground")
    cluster.run(10.0)
    for kind in ("JobSet", "Job", "Pod", "Service"):
        assert cluster.list(kind) == []
