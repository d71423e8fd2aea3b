"""What can be proven of an attempt on a cluster: facts and memory to a decision."""

from dataclasses import replace

import pytest

from k8s.replaying import KEY, outcome
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import (
    STANDS,
    GiveUp,
    Over,
    Recorded,
    Runs,
    TakeClaim,
    Unknown,
    Waits,
    give_up,
)
from trainshed.engines.kubernetes.state.causes import EndCause
from trainshed.engines.kubernetes.state.facts import (
    ContainerFacts,
    JobSetFacts,
    KubernetesFacts,
    ObjectCondition,
    PodFacts,
    WorkloadFacts,
)
from trainshed.engines.kubernetes.state.proof import (
    SETTLE_S,
    ClusterMemory,
    LookUp,
    Withdraw,
    decide_state,
    follow,
)
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.warden.protocol import ENDS_PROCESSES
from trainshed.model.attempt import Loss, Outcome
from trainshed.model.explanation import Reason

ORDER = Order(grace_s=30.0, reason="cancel")
LATE_S = 90.0
UID = "0b0c"
NAME = "ts-a-4611686018427387904-2"
TRUE = ObjectCondition(is_true=True)
JOBSET = JobSetFacts(name=NAME, uid=UID, replicas={"primary": 1, "worker": 1})
QUEUED = JOBSET._replace(is_suspended=True, queue="q")
COMPLETED = JOBSET._replace(conditions={"Completed": TRUE})
FAILED = JOBSET._replace(conditions={"Failed": ObjectCondition(True, "ReachedMaxRestarts", "no")})
DELETING = JOBSET._replace(is_deleting=True)
RUNNING = (ContainerFacts("main", is_running=True),)


def pod(role="primary", **more):
    values = {"phase": "Running", "node": "n1", "containers": RUNNING, "is_ready": True, **more}
    return PodFacts(name=f"{NAME}-{role}-0-0-abcde", uid=f"uid-{role}", role=role, **values)


def pods(**more):
    return (pod(**more), pod("worker", **more))


def ends(code, word="Error"):
    return (ContainerFacts("main", ended=word, exit_code=code),)


def facts(jobset=JOBSET, **more):
    """What is read of an attempt that was submitted."""
    values = {"name": NAME, "uid": UID, "lost_after_s": LATE_S, "nodes": {"n1": True}, **more}
    return KubernetesFacts(key=KEY, jobset=jobset, **values)


BEGUN = {"has_begun": True, "is_ready": True, "pods": pods()}
INTERRUPTED = {**BEGUN, "outcome": outcome(143, interrupted=True)}
RECLAIMED = {
    **BEGUN,
    "outcome": outcome(143, interrupted=True, message=f"n1 {ENDS_PROCESSES}"),
}
LOST = {**BEGUN, "outcome": Outcome(1, "worker-0 is lost"), "is_lost": True}
END = EndByCluster("it was evicted", Loss.MAINTENANCE)
STRONG = ClusterMemory(cause=EndCause(END, 0))
WEAK = ClusterMemory(cause=EndCause(END, 99))
SETTLED = ClusterMemory(ended_since_s=-SETTLE_S)
OVER = ClusterMemory(over_since_s=-LATE_S)
SILENT = {"nodes": {"n1": False}}


@pytest.mark.parametrize(
    ("given", "memory", "decision"),
    [
        # an end that is written down counts for ever
        (facts(end=STANDS), ClusterMemory(), Over(STANDS, is_written=True)),
        (facts(None, end=STANDS, is_away=True), OVER, Over(STANDS, is_written=True)),
        # never submitted
        (facts(is_submitted=False), ClusterMemory(), Unknown()),
        (
            facts(is_submitted=False, order=ORDER),
            ClusterMemory(),
            Over(EndByCluster(early=True), is_written=True),
        ),
        # ordered to end before it began: who has the claim decides
        (facts(order=ORDER), ClusterMemory(), TakeClaim()),
        (facts(order=ORDER, claim=True), ClusterMemory(), Over(EndByCluster(early=True))),
        (
            facts(order=ORDER._replace(lost=True), claim=True),
            ClusterMemory(),
            Over(EndByCluster("the attempt was given up before it began", Loss.INFRA)),
        ),
        (facts(order=ORDER, claim=False, pods=pods()), ClusterMemory(), Runs()),
        (facts(order=ORDER, **BEGUN), ClusterMemory(), Runs()),
        # a recorded end that only the program can have caused, or that we ordered
        (facts(**BEGUN, outcome=outcome(0)), ClusterMemory(), Recorded()),
        (facts(COMPLETED, **BEGUN, outcome=outcome(0)), WEAK, Recorded()),
        (facts(FAILED, **BEGUN, outcome=outcome(42)), STRONG, Recorded()),
        (facts(**BEGUN, outcome=outcome(signal=11)), STRONG, Recorded()),
        (facts(None, **BEGUN, outcome=outcome(42)), ClusterMemory(), Recorded()),
        (facts(**BEGUN, outcome=outcome(42), is_away=True), ClusterMemory(), Recorded()),
        (facts(**BEGUN, outcome=outcome(42), **SILENT), ClusterMemory(), Recorded()),
        (facts(**INTERRUPTED, order=ORDER), STRONG, Recorded()),
        (facts(**LOST, order=ORDER), ClusterMemory(), Recorded()),
        # a recorded end of which the cluster has to show the cause
        (facts(**INTERRUPTED), ClusterMemory(ended_since_s=0.0), Runs()),
        (facts(**INTERRUPTED), WEAK, Runs()),
        (facts(**INTERRUPTED), WEAK._replace(cause_since_s=-SETTLE_S), Over(END)),
        (facts(**INTERRUPTED), STRONG, Over(END)),
        (facts(**LOST), STRONG, Over(END)),
        (facts(**INTERRUPTED, withdrawn=END), ClusterMemory(), Over(END)),
        (facts(**INTERRUPTED, is_away=True), STRONG, Runs()),
        (facts(**INTERRUPTED, is_synced=False), SETTLED, Runs()),
        (
            facts(**INTERRUPTED),
            SETTLED,
            Over(EndByCluster("the launcher was stopped from outside Trainshed", Loss.INFRA)),
        ),
        (
            facts(**RECLAIMED),
            SETTLED,
            Over(
                EndByCluster(
                    f"the cluster reclaims its nodes: n1 {ENDS_PROCESSES}", Loss.MAINTENANCE
                )
            ),
        ),
        (facts(**LOST), SETTLED, Recorded()),
        # a lost replica on a silent node may still run
        (facts(FAILED, **LOST, nodes={"n2": True}), SETTLED, Recorded()),
        # the API is away, or has not listed everything
        (facts(is_away=True), ClusterMemory(), Unknown()),
        (facts(**BEGUN, is_away=True), OVER, Unknown()),
        (facts(None, has_begun=True, is_synced=False), OVER, Unknown()),
        (facts(None, uid=""), ClusterMemory(), Unknown()),
        # it runs, or begins to
        (facts(**BEGUN), ClusterMemory(), Runs()),
        (facts(pods=pods(containers=())), ClusterMemory(), Runs()),
        # the lists lack its JobSet
        (facts(None, **BEGUN), ClusterMemory(), LookUp()),
        (facts(None, **BEGUN, lookup=False), ClusterMemory(), Runs()),
        (facts(None, **BEGUN, lookup=True), ClusterMemory(), Runs()),
        (facts(None, **BEGUN, is_new=True), ClusterMemory(), Runs()),
        (facts(None, has_begun=True), ClusterMemory(), LookUp()),
        (facts(None), ClusterMemory(), LookUp()),
        (facts(None, lookup=True), ClusterMemory(), TakeClaim()),
        (facts(None, lookup=True, claim=True), STRONG, Over(END)),
        # it was ended before it began
        (facts(DELETING), ClusterMemory(), TakeClaim()),
        (facts(DELETING, claim=True), STRONG, Over(END)),
        (facts(FAILED, claim=False, pods=pods()), ClusterMemory(), Runs()),
        # it is over for the cluster, and its records tell no end
        (facts(COMPLETED, has_begun=True), ClusterMemory(over_since_s=0.0), Runs()),
        (
            facts(COMPLETED, has_begun=True),
            STRONG._replace(over_since_s=-LATE_S),
            GiveUp("it was evicted", END),
        ),
        (
            facts(COMPLETED, has_begun=True, withdrawn=END),
            OVER,
            GiveUp("it was evicted", END),
        ),
        # the queue of Kueue
        (facts(QUEUED, **BEGUN), ClusterMemory(), Runs()),
        (facts(QUEUED, **BEGUN), WEAK, Runs()),
        (facts(QUEUED, **BEGUN), WEAK._replace(cause_since_s=-SETTLE_S), Withdraw(END)),
        (facts(QUEUED, **BEGUN, order=ORDER), WEAK._replace(cause_since_s=-SETTLE_S), Runs()),
        (facts(QUEUED, **BEGUN, withdrawn=END), STRONG, Runs()),
    ],
)
def test_the_decision_follows_from_the_facts(given, memory, decision):
    assert decide_state(given, memory) == decision


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (facts(**BEGUN, **SILENT), "the node n1 has stopped reporting"),
        (facts(**LOST, **SILENT), "the node n1 has stopped reporting"),
        (facts(**LOST, order=ORDER, **SILENT), "trainshed attempts fence"),
        (facts(None, **BEGUN, lookup=True, **SILENT), "the node n1 has stopped reporting"),
        (facts(FAILED, **BEGUN, **SILENT), "kubectl delete node n1"),
    ],
)
def test_the_state_on_a_silent_node_is_unknown(given, words):
    decision = decide_state(given, follow(ClusterMemory(), given))
    assert isinstance(decision, Unknown)
    assert words in decision.waits.message
    assert decision.waits.reason is Reason.ENGINE_AWAY


def test_an_attempt_waits_until_a_pod_has_a_node():
    decision = decide_state(facts(), ClusterMemory())
    assert isinstance(decision, Waits)
    assert decision.waits.reason is Reason.ENGINE_QUEUE
    decision = decide_state(facts(QUEUED, workload=WorkloadFacts("w", "q")), ClusterMemory())
    assert decision == Waits(decision.waits)


def observe(*observations):
    """The memory after the observations, and the last decision."""
    memory = ClusterMemory()
    for given in observations:
        memory = follow(memory, given)
    return memory, decide_state(observations[-1], memory)


def test_the_loss_of_all_pods_needs_time_without_a_break():
    gone = facts(has_begun=True)
    memory, decision = observe(gone, replace(gone, now_s=LATE_S - 1.0))
    assert decision == Runs()
    _, decision = observe(gone, replace(gone, now_s=LATE_S))
    assert isinstance(decision, GiveUp)
    back = facts(**BEGUN, now_s=50.0)
    memory, decision = observe(gone, back, replace(gone, now_s=LATE_S))
    assert decision == Runs()
    assert memory.over_since_s == LATE_S


def test_an_absent_answer_neither_starts_nor_ends_a_proof():
    away = facts(None, has_begun=True, is_away=True)
    memory, decision = observe(facts(**BEGUN), away, replace(away, now_s=1e6))
    assert decision == Unknown()
    assert memory.over_since_s is None
    unsynced = replace(away, is_away=False, is_synced=False, now_s=2e6)
    assert observe(away, unsynced, replace(unsynced, now_s=3e6))[1] == Unknown()


def test_the_answer_about_a_name_is_remembered():
    gone = facts(None, has_begun=True, lookup=True)
    _, decision = observe(gone, replace(gone, lookup=None, now_s=1.0))
    assert decision == Runs()


def test_a_cause_before_the_attempt_began_is_no_cause_of_its_end():
    deleted = facts(pods=pods(is_deleting=True))
    memory, _ = observe(deleted, facts(**BEGUN))
    assert memory.cause is None


def test_a_stronger_cause_replaces_a_weaker_one():
    deleted = facts(**{**BEGUN, "pods": pods(is_deleting=True)})
    workload = WorkloadFacts(
        "w", "q", conditions={"Evicted": ObjectCondition(True, "Preempted", "by x")}
    )
    evicted = replace(deleted, jobset=QUEUED, workload=workload, now_s=0.3)
    memory, decision = observe(deleted, evicted)
    assert memory.cause.end.loss is Loss.MAINTENANCE
    assert memory.cause_since_s == 0.3
    assert isinstance(decision, Withdraw)
    memory, _ = observe(deleted, evicted, replace(deleted, now_s=0.6))
    assert memory.cause.end.loss is Loss.MAINTENANCE


def test_a_deadline_of_the_queue_ends_the_job():
    reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
    workload = WorkloadFacts(
        "w", "q", conditions={"Evicted": ObjectCondition(True, reason, "late")}
    )
    _, decision = observe(facts(QUEUED, **BEGUN, workload=workload))
    assert decision.end.loss is Loss.LIMIT


def test_killed_workers_of_a_completed_jobset_are_no_cause():
    killed = pod("worker", phase="Failed", is_deleting=True, containers=ends(137))
    done = pod(phase="Succeeded", containers=ends(0, "Completed"))
    given = facts(COMPLETED, **{**BEGUN, "pods": (done, killed)})
    memory, decision = observe(given)
    assert memory.cause is None
    assert decision == Runs()
    end = observe(given, replace(given, now_s=LATE_S))[1].end
    assert "worker" not in end.fault
    assert "exit code" not in end.fault


def test_the_other_pods_of_a_failed_job_are_not_deleted_by_a_user():
    failed = pod("worker", phase="Failed", containers=ends(7))
    peer = failed._replace(name="peer", index=1, is_deleting=True)
    memory, _ = observe(facts(**{**BEGUN, "pods": (pod(), failed, peer)}))
    assert memory.cause is None


def test_a_pod_that_used_too_much_of_its_own_storage_has_failed():
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
    evicted = pod("worker", phase="Failed", reason="Evicted", message=message)
    memory, decision = observe(facts(**{**LOST, "pods": (pod(), evicted)}))
    assert decision.end.exit_code == 137
    assert message in decision.end.fault
    pressed = evicted._replace(
        disruption=ObjectCondition(True, "TerminationByKubelet", "low memory")
    )
    memory, decision = observe(facts(**{**LOST, "pods": (pod(), pressed)}))
    assert memory.cause.end.loss is Loss.MAINTENANCE


def test_a_launcher_that_was_killed_for_memory_is_no_fault_of_the_job():
    launcher = ContainerFacts("launcher", ended="OOMKilled", exit_code=137, memory_limit="64Mi")
    memory, _ = observe(facts(**{**BEGUN, "pods": (pod(containers=(*RUNNING, launcher)),)}))
    assert memory.cause.end == EndByCluster(
        f"the container launcher of the pod {pod().name} was killed: out of memory at its limit of "
        "64Mi",
        Loss.INFRA,
    )


def test_a_launcher_that_misses_a_warden_says_why_the_cluster_did_not_start_it():
    waiting = (ContainerFacts("main", image="i", waiting="ErrImagePull", message="no such host"),)
    starting = {"has_begun": True, "pods": (pod(), pod("worker", containers=waiting))}
    late = Outcome(1, "worker-0 did not come up within 300 s")
    given = facts(**starting, outcome=late, is_lost=True, now_s=SETTLE_S)
    _, decision = observe(facts(**starting), replace(given, now_s=1.0), replace(given, now_s=9.0))
    assert decision.end.loss is Loss.INFRA
    assert decision.end.fault.startswith(f"{late.message}: the node n1 cannot pull the image i")


def test_the_time_to_start_begins_when_the_queue_admits_the_job():
    queued = facts(QUEUED, workload=WorkloadFacts("w", "q"))
    starting = facts(pods=pods(containers=(), node=""), now_s=5000.0)
    memory, decision = observe(queued, starting)
    assert memory.starting_since_s == 5000.0
    assert isinstance(decision, Waits)
    late = replace(starting, now_s=5900.0)
    assert observe(queued, starting, late)[1] == TakeClaim()
    over = observe(queued, starting, replace(late, claim=True))[1]
    assert over.end.loss is Loss.INFRA
    assert "the primary and the worker did not start within 900 s: the pod" in over.end.fault


def test_a_gang_whose_pods_have_started_has_no_time_limit_of_the_cluster():
    started = facts(has_begun=True, pods=pods(), now_s=0.0)
    assert observe(started, replace(started, now_s=1e6))[1] == Runs()


@pytest.mark.parametrize(
    ("decision", "records", "expected"),
    [
        (GiveUp("why", END), {"has_ended": True, "has_decided": True}, Recorded()),
        (GiveUp("why", END), {"has_ended": False, "has_decided": True}, Over(STANDS)),
        (
            GiveUp("why", END),
            {"has_ended": False, "has_decided": False},
            Over(END, takes_claim=True),
        ),
        (
            GiveUp("why"),
            {"has_ended": False, "has_decided": False},
            Over(EndByCluster("why: killed", Loss.INFRA), takes_claim=True),
        ),
    ],
)
def test_giving_up_after_a_last_look_at_the_records(decision, records, expected):
    assert give_up(decision.why, "killed", end=decision.end, **records) == expected


def test_a_cause_before_an_attempt_that_never_begins_is_the_cause_of_its_end():
    """A drain removes a pod without a process at once; the JobSet fails when the pod is gone."""
    disruption = ObjectCondition(True, "EvictionByEvictionAPI", "Eviction API: evicting")
    drained = facts(pods=pods(disruption=disruption, is_deleting=True))
    memory, decision = observe(drained, facts(FAILED, pods=(), claim=True, now_s=0.5))
    assert memory.cause.end.loss is Loss.MAINTENANCE
    assert decision == Over(memory.cause.end)


def test_a_container_that_cannot_start_fails_the_job_also_if_its_jobset_has_failed_first():
    """A server that was away meets the failed JobSet and the pod at once."""
    refused = (ContainerFacts("main", ended="StartError", exit_code=128, message="no such file"),)
    failed = facts(FAILED, pods=pods(phase="Failed", containers=refused), claim=True)
    _, decision = observe(failed)
    assert decision.end.never
    assert "cannot start on the node n1: no such file" in decision.end.fault


SQUASHED = "Traceback:\nPermissionError: [Errno 13] Permission denied: '/trainshed/attempt/claim'\n"


def launcher(message=SQUASHED, exit_code=1):
    ended = "Error" if exit_code else "Completed"
    return ContainerFacts("launcher", ended=ended, exit_code=exit_code, message=message)


@pytest.mark.parametrize(
    ("message", "loss"), [(SQUASHED, None), ("OSError: [Errno 116] Stale file handle", Loss.INFRA)]
)
def test_a_launcher_that_cannot_write_in_the_claim_ends_the_attempt(message, loss):
    """The wardens dial it for many minutes, and all containers have started."""
    failed = facts(pods=pods(containers=(*RUNNING, launcher(message))))
    assert observe(failed)[1] == TakeClaim()
    end = observe(replace(failed, claim=True))[1].end
    assert (end.loss, end.never) == (loss, loss is None)
    assert end.fault.startswith("the launcher of primary-0 on the node n1 could not begin the att")
    assert message.strip().splitlines()[-1] in end.fault
    assert "check that pods can write files in the claim" in end.fault


@pytest.mark.parametrize(
    "given",
    [
        {"claim": False},
        {"has_begun": True},
        {"pods": pods(containers=(*RUNNING, launcher(exit_code=0)))},
        {"pods": pods(containers=(*RUNNING, launcher("", 143)), is_deleting=True)},
    ],
)
def test_another_launcher_that_has_ended_is_no_reason_to_end_the_attempt(given):
    failed = {"pods": pods(containers=(*RUNNING, launcher())), **given}
    assert observe(facts(**failed))[1] == Runs()
