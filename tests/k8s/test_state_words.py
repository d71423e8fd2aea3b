"""The cluster's words in sentences for users."""

import pytest

from k8s.replaying import KEY
from trainshed.engines.kubernetes.state import reasons
from trainshed.engines.kubernetes.state.facts import (
    CheckFacts,
    ContainerFacts,
    EventFacts,
    JobSetFacts,
    KubernetesFacts,
    ObjectCondition,
    PodFacts,
    WorkloadFacts,
)
from trainshed.engines.kubernetes.state.kueue import explain_suspended
from trainshed.engines.kubernetes.state.obstacles import find_obstacle
from trainshed.engines.kubernetes.state.refusals import judge_refusal
from trainshed.model.explanation import Reason

NAME = "ts-a-1-1"
JOBSET = JobSetFacts(NAME, "u", "team", replicas={"primary": 1, "worker": 8}, queue="q")
NO_HELP = "no new claims to deallocate, preemption: 0/16 nodes are available: 16 Preemption is not"


def facts(**more):
    return KubernetesFacts(key=KEY, name=NAME, uid="u", **{"jobset": JOBSET, **more})


def pod(role="worker", index=0, **more):
    return PodFacts(f"{NAME}-{role}-0-{index}-abcde", f"{role}{index}", role, index, **more)


@pytest.mark.parametrize(
    ("messages", "reason", "text"),
    [
        (
            [f"0/16 nodes are available: 16 Insufficient nvidia.com/gpu. {NO_HELP}"],
            Reason.CAPACITY,
            "16 nodes lack nvidia.com/gpu",
        ),
        (
            ["0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory. preemption: x"],
            Reason.CAPACITY,
            "1 node lacks cpu, 2 nodes lack memory",
        ),
        (
            ["0/1 nodes are available: 1 node(s) were unschedulable. " + NO_HELP],
            Reason.DRAINED,
            "1 node is cordoned",
        ),
        (
            [
                (
                    "0/4 nodes are available: 1 node(s) had untolerated taint {example.com/gate: "
                    "}, 3 node(s) didn't match Pod's node affinity/selector. preemption: 0"
                )
            ],
            Reason.NO_SUCH_NODE,
            (
                "1 node has the taint example.com/gate, which the job does not "
                "tolerate, 3 nodes do not match the job's node selector"
            ),
        ),
        (
            [
                (
                    "0/2 nodes are available: 2 node(s) had taint {gpu: yes}, that the pod didn't "
                    "tolerate."
                )
            ],
            Reason.NO_SUCH_NODE,
            "2 nodes have the taint gpu, which the job does not tolerate",
        ),
        (
            ["0/2 nodes are available: 2 Too many pods. preemption: 0/2 nodes are available: 2 No"],
            Reason.CAPACITY,
            "2 nodes hold their maximum of pods",
        ),
        (
            ["0/2 nodes are available: 2 node(s) had volume node affinity conflict."],
            Reason.VOLUME,
            "2 nodes cannot mount a volume of the job",
        ),
        (
            ['persistentvolumeclaim "trainshed" not found'],
            Reason.VOLUME,
            'persistentvolumeclaim "trainshed" not found',
        ),
        (["no nodes available to schedule pods"], Reason.CAPACITY, "no nodes available to sch"),
        (
            ["0/2 nodes are available: 2 node(s) are in another galaxy."],
            Reason.CAPACITY,
            "2 nodes: are in another galaxy",
        ),
        ([""], Reason.CAPACITY, "the scheduler gives no reason"),
    ],
)
def test_replicas_without_a_node(messages, reason, text):
    explanation = reasons.explain_unscheduled({"worker": (3, 8)}, messages)
    assert explanation.message.startswith(f"3 of 8 workers have no place: {text}")
    assert explanation.reason is reason
    assert "preemption" not in explanation.message


def test_replicas_of_several_roles():
    counts = {"primary": (1, 1), "ps": (2, 4), "evaluator": (1, 1)}
    assert reasons.count_replicas(counts) == (
        "the primary and 2 of 4 parameter servers and the evaluator"
    )
    assert reasons.explain_unscheduled({"primary": (1, 1)}, [""]).message.startswith(
        "the primary has no place"
    )


def test_many_names():
    assert reasons.join_names(["a"]) == "a"
    assert reasons.join_names(list("abc")) == "a, b, c"
    assert reasons.join_names(list("abcde")) == "a, b, c and 2 more"


def test_a_long_text_of_the_cluster_is_cut():
    assert len(reasons.quote("x " * 1000)) == 300
    assert reasons.quote("a\n  b") == "a b"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            (
                "failed to create containerd task: failed to create shim task: OCI runtime create "
                "failed: runc create failed: unable to start container process: exec "
                "/trainshed/lib/ld.so: exec format error: unknown"
            ),
            "another CPU architecture than the server",
        ),
        (
            "unable to start container process: exec: permission denied",
            "not mounted with noexec",
        ),
        ("", "the container runtime gives no reason"),
    ],
)
def test_a_container_that_cannot_start(message, words):
    container = ContainerFacts("main", ended="StartError", exit_code=128, message=message)
    obstacle = find_obstacle(facts(pods=(pod(node="n1", phase="Failed", containers=(container,)),)))
    assert not obstacle.heals
    assert obstacle.explanation.message.startswith("worker-0 cannot start on the node n1: ")
    assert words in obstacle.explanation.message


@pytest.mark.parametrize(
    ("waiting", "reason", "heals"),
    [
        ("ErrImagePull", Reason.IMAGE, True),
        ("ImagePullBackOff", Reason.IMAGE, True),
        ("ErrImageNeverPull", Reason.IMAGE, True),
        ("InvalidImageName", Reason.IMAGE, False),
        ("CreateContainerConfigError", Reason.NOT_STARTING, True),
        ("CreateContainerError", Reason.NOT_STARTING, True),
        ("RunContainerError", Reason.NOT_STARTING, True),
        ("ContainerCreating", None, True),
        ("PodInitializing", None, True),
        ("", None, True),
    ],
)
def test_a_container_that_waits(waiting, reason, heals):
    containers = (ContainerFacts("main", image="i", waiting=waiting, message="why"),)
    full = tuple(pod(index=n, node="n1", containers=containers) for n in range(8))
    obstacle = find_obstacle(facts(pods=(*full, pod("primary", node="n1"))))
    if reason is None:
        assert obstacle is None
    else:
        assert obstacle.explanation.reason is reason
        assert obstacle.heals is heals
        assert "worker-0, worker-1, worker-2 and 5 more" in obstacle.explanation.message
        assert "why" in obstacle.explanation.message


@pytest.mark.parametrize(
    ("event", "reason"),
    [("FailedMount", Reason.VOLUME), ("FailedCreatePodSandBox", Reason.NOT_STARTING)],
)
def test_an_event_of_a_pod_counts_until_its_containers_have_started(event, reason):
    waits = (ContainerFacts("main", waiting="ContainerCreating"),)
    events = (EventFacts("Pod", pod().name, event, "MountVolume.SetUp failed: no such claim"),)
    obstacle = find_obstacle(facts(pods=(pod(node="n1", containers=waits),), events=events))
    assert obstacle.explanation.reason is reason
    assert "worker-0" in obstacle.explanation.message
    assert "no such claim" in obstacle.explanation.message
    runs = (ContainerFacts("main", is_running=True),)
    assert find_obstacle(facts(pods=(pod(node="n1", containers=runs),), events=events)) is None


def test_a_claim_that_kubelets_cannot_enter():
    message = 'failed to prepare subPath for volumeMount "spool" of container "main"'
    waits = (ContainerFacts("main", waiting="CreateContainerConfigError", message=message),)
    obstacle = find_obstacle(facts(pods=(pod(node="n1", containers=waits),)))
    assert obstacle.explanation.reason is Reason.VOLUME
    assert f"{message}; let the kubelets" in obstacle.explanation.message


def test_an_obstacle_that_cannot_heal_comes_first():
    pulling = pod(index=1, node="n1", containers=(ContainerFacts("main", waiting="ErrImagePull"),))
    message = (
        'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": root'
    )
    events = (EventFacts("Job", f"{NAME}-worker-0", "FailedCreate", message),)
    obstacle = find_obstacle(facts(pods=(pulling,), events=events))
    assert not obstacle.heals
    assert obstacle.explanation.reason is Reason.NOT_STARTING
    assert obstacle.explanation.message == (
        'the cluster creates no pods for 7 of 8 workers: violates PodSecurity "restricted:latest": '
        "root; set the security context in the [[engine]] table, or let an administrator change "
        "the Pod Security level of the namespace"
    )


def test_a_refusal_counts_until_its_pods_exist():
    events = (EventFacts("Job", f"{NAME}-worker-0", "FailedCreate", "exceeded quota: q"),)
    full = tuple(pod(index=n) for n in range(8))
    assert find_obstacle(facts(pods=full, events=events)) is None


def test_a_scheduling_gate_of_another_controller():
    gated = pod(unscheduled=ObjectCondition(False, "SchedulingGated", "Scheduling is blocked"))
    obstacle = find_obstacle(facts(pods=(gated,)))
    assert obstacle.explanation.reason is Reason.HELD


def test_a_jobset_for_the_controller_of_another_cluster():
    obstacle = find_obstacle(facts(jobset=JOBSET._replace(managed_by="kueue.x-k8s.io/multikueue")))
    assert not obstacle.heals
    assert "kueue.x-k8s.io/multikueue" in obstacle.explanation.message


@pytest.mark.parametrize(
    ("message", "heals"),
    [
        ("exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4", True),
        ("exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0", False),
        (
            (
                "exceeded quota: q, requested: requests.memory=2Gi,pods=1, used: requests.memory=0,"
                "pods=0, limited: requests.memory=1024Mi,pods=9"
            ),
            False,
        ),
        (
            (
                "exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=1, limited: "
                "requests.cpu=2"
            ),
            True,
        ),
        ("failed quota: q: must specify limits.memory for: main", False),
        ('violates PodSecurity "baseline:latest": hostPath volumes', False),
        ("maximum cpu usage per Container is 2, but limit is 4", False),
        ("minimum memory usage per Pod is 1Gi, but request is 64Mi", False),
        ('admission webhook "policy.example.com" denied the request: no root', False),
        ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", False),
        (
            'Internal error occurred: failed calling webhook "m.example.com": connection refused',
            True,
        ),
        ('Pod "x" is invalid: spec.containers[0].image: Required value', False),
        ('error looking up service account a/b: serviceaccount "b" not found', True),
        ("no PriorityClass with name gold was found", True),
        ("the cluster says something else", True),
    ],
)
def test_a_refusal_of_the_api(message, heals):
    refusal = judge_refusal(f'Error creating: pods "ts-a-1-1-worker-0-0-" is forbidden: {message}')
    assert refusal.heals is heals
    assert refusal.text.startswith(message)


def quota(reason, message=""):
    return WorkloadFacts(
        "w", "q", conditions={"QuotaReserved": ObjectCondition(False, reason, message)}
    )


@pytest.mark.parametrize(
    ("workload", "reason", "words"),
    [
        (quota("WaitingForQuota", "2 more needed"), Reason.QUOTA, "other jobs use the quota"),
        (quota("ExceedsMaxQuota"), Reason.NO_SUCH_NODE, "more than the whole quota of the queue q"),
        (quota("NoMatchingFlavor"), Reason.NO_SUCH_NODE, "no resource flavor"),
        (quota("TopologyPlacementFailed"), Reason.CAPACITY, "close enough"),
        (quota("WaitingForPreemptedWorkloads"), Reason.ENGINE_QUEUE, "ending other jobs"),
        (quota("WaitingForPodsReady"), Reason.ENGINE_QUEUE, "pods of another job"),
        (quota("Misconfigured"), Reason.NO_SUCH_NODE, "does not exist"),
        (quota("Suspended"), Reason.HELD, "the queue q is stopped"),
        (quota("AdmissionGated"), Reason.HELD, "another controller holds"),
        (quota("PendingEvaluation"), Reason.ENGINE_QUEUE, "the job waits in the queue q"),
        (quota("SomethingNew", "new words"), Reason.ENGINE_QUEUE, "SomethingNew: new words"),
        (WorkloadFacts("w", "q"), Reason.ENGINE_QUEUE, "Kueue gives no reason yet"),
        # Kueue of v1beta1 has the cause only in its message
        (
            quota("Pending", "couldn't assign flavors: insufficient unused quota for cpu"),
            Reason.QUOTA,
            "other jobs use the quota",
        ),
        (
            quota("Pending", "insufficient quota for cpu, request > maximum capacity (4)"),
            Reason.NO_SUCH_NODE,
            "more than the whole quota",
        ),
        (
            quota("Pending", "insufficient unused quota. Pending the preemption of 1 workload(s)"),
            Reason.ENGINE_QUEUE,
            "ending other jobs",
        ),
        (
            quota("Inadmissible", "LocalQueue q doesn't exist"),
            Reason.NO_SUCH_NODE,
            "does not exist",
        ),
        (quota("Inadmissible", "ClusterQueue x is inactive"), Reason.HELD, "is stopped"),
        (WorkloadFacts("w", "q", is_active=False), Reason.HELD, "w of the JobSet ts-a-1-1 is deac"),
        (
            WorkloadFacts(
                "w",
                "q",
                conditions={"QuotaReserved": ObjectCondition(is_true=True)},
                checks=(CheckFacts("budget", "Pending", "ask finance"),),
            ),
            Reason.ENGINE_QUEUE,
            (
                "the admission check budget of the queue q has not admitted the job (Kueue says "
                "Pending: ask finance)"
            ),
        ),
        (
            WorkloadFacts(
                "w",
                "q",
                conditions={"QuotaReserved": ObjectCondition(is_true=True)},
                checks=(CheckFacts("a", "Ready"), CheckFacts("budget", "Rejected")),
            ),
            Reason.HELD,
            "has rejected the job",
        ),
    ],
)
def test_a_queue_says_why_a_job_waits(workload, reason, words):
    suspended = JOBSET._replace(is_suspended=True)
    obstacle = explain_suspended(facts(jobset=suspended, workload=workload), 0.0)
    assert obstacle.heals
    assert obstacle.explanation.reason is reason
    assert words in obstacle.explanation.message


def test_a_queue_of_another_cluster_is_refused_by_name():
    workload = WorkloadFacts("w", "q", clusters=("west", "east"))
    obstacle = explain_suspended(facts(workload=workload), 0.0)
    assert not obstacle.heals
    assert "the queue q hands" in obstacle.explanation.message
    assert "west, east (MultiKueue)" in obstacle.explanation.message


@pytest.mark.parametrize(
    ("more", "suspended_s", "reason", "words"),
    [
        ({}, 29.0, Reason.ENGINE_QUEUE, "Kueue has made no Workload for ts-a-1-1 yet"),
        ({}, 30.0, Reason.HELD, "check that Kueue runs"),
        ({"has_kueue": False}, 0.0, Reason.HELD, "the cluster has no Kueue"),
        ({"reads_workloads": False}, 40.0, Reason.ENGINE_QUEUE, "may not read Kueue's Workloads"),
        ({"jobset": JOBSET._replace(queue="")}, 0.0, Reason.HELD, "another user has suspended"),
    ],
)
def test_a_suspended_jobset_without_a_workload(more, suspended_s, reason, words):
    obstacle = explain_suspended(facts(**more), suspended_s)
    assert obstacle.explanation.reason is reason
    assert words in obstacle.explanation.message
