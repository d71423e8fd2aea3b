"""What no sequence of the API's events can make the server believe."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from k8s.replaying import KEY, outcome
from trainshed.engines.decisions import GiveUp, Over, Recorded, TakeClaim, give_up
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
from trainshed.engines.kubernetes.state.proof import (
    ClusterMemory,
    LookUp,
    Withdraw,
    decide_state,
    follow,
)
from trainshed.engines.supervise.record.folder import Order
from trainshed.model.attempt import Outcome

NAME, UID, LATE_S = "ts-a-1-1", "0b0c", 90.0
NODES = ("n1", "n2", "")


def build(kind, /, **fields):
    """Values of a kind; hypothesis's own way looks at the types of all fields, which takes long."""
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


conditions = build(
    ObjectCondition,
    is_true=st.booleans(),
    reason=st.sampled_from(["", "Preempted", "WaitingForQuota", "DeletionByTaintManager", "X"]),
    message=st.sampled_from(["", "0/2 nodes are available: 2 Insufficient cpu.", "is inactive"]),
)
containers = build(
    ContainerFacts,
    name=st.sampled_from(["main", "launcher"]),
    image=st.just("i"),
    waiting=st.sampled_from(["", "ErrImagePull", "InvalidImageName", "ContainerCreating", "Odd"]),
    is_running=st.booleans(),
    ended=st.sampled_from(["", "Error", "OOMKilled", "StartError", "Completed"]),
    exit_code=st.sampled_from([None, 0, 1, 137]),
    message=st.just("why"),
)
pods = build(
    PodFacts,
    name=st.sampled_from([f"{NAME}-primary-0-0-aaaaa", f"{NAME}-worker-0-0-bbbbb"]),
    uid=st.just("p"),
    role=st.sampled_from(["primary", "worker"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    node=st.sampled_from(NODES),
    is_deleting=st.booleans(),
    is_ready=st.booleans(),
    unscheduled=st.none() | conditions,
    disruption=st.none() | conditions,
    reason=st.sampled_from(["", "Evicted", "DeadlineExceeded"]),
    containers=st.lists(containers, max_size=2).map(tuple),
)
jobsets = build(
    JobSetFacts,
    name=st.just(NAME),
    uid=st.just(UID),
    is_deleting=st.booleans(),
    is_suspended=st.booleans(),
    conditions=st.dictionaries(st.sampled_from(["Completed", "Failed"]), conditions, max_size=2),
    replicas=st.just({"primary": 1, "worker": 1}),
    queue=st.sampled_from(["", "q"]),
    managed_by=st.sampled_from(["", "kueue.x-k8s.io/multikueue"]),
)
events = build(
    EventFacts,
    kind=st.sampled_from(["JobSet", "Job", "Pod"]),
    name=st.sampled_from([NAME, f"{NAME}-worker-0", f"{NAME}-worker-0-0-bbbbb"]),
    reason=st.sampled_from(
        ["FailedCreate", "JobCreationFailed", "DeadlineExceeded", "FailedMount", "NodeNotReady"]
    ),
    message=st.sampled_from(["exceeded quota: q", f'job "{NAME}-worker-0" is invalid: x', ""]),
)
workloads = build(
    WorkloadFacts,
    name=st.just("w"),
    is_active=st.booleans(),
    conditions=st.dictionaries(st.sampled_from(["Evicted", "QuotaReserved"]), conditions),
    checks=st.sampled_from([(), (CheckFacts("c", "Pending"),)]),
    clusters=st.sampled_from([(), ("west",)]),
)
nodes = st.none() | st.dictionaries(st.sampled_from(["n1", "n2"]), st.booleans())
clusters = st.fixed_dictionaries(
    {
        "jobset": st.none() | jobsets,
        "pods": st.lists(pods, max_size=3).map(tuple),
        "events": st.lists(events, max_size=2).map(tuple),
        "workload": st.none() | workloads,
        "nodes": nodes,
        "lookup": st.sampled_from([None, False, True]),
        "successor": st.sampled_from(["", "other"]),
        "is_away": st.booleans(),
        "is_synced": st.booleans(),
    }
)
steps = st.lists(st.tuples(st.floats(0.0, 400.0), clusters), min_size=1, max_size=8)
sequences = settings(max_examples=300)


def observe(sequence, **folder):
    """Yield the facts, the memory and the decision of each observation, as an engine acts."""
    memory, now_s, stored = ClusterMemory(), 0.0, {}
    for pause_s, cluster in sequence:
        now_s += pause_s
        facts = KubernetesFacts(
            key=KEY, name=NAME, uid=UID, now_s=now_s, lost_after_s=LATE_S, **cluster, **folder
        )
        facts = replace(facts, **stored)
        memory = follow(memory, facts)
        decision = decide_state(facts, memory)
        if isinstance(decision, TakeClaim):
            facts = replace(facts, claim=True)
            decision = decide_state(facts, memory)
        yield facts, memory, decision
        if isinstance(decision, GiveUp):
            decision = give_up(
                decision.why, "", has_ended=False, has_decided=False, end=decision.end
            )
        if isinstance(decision, Withdraw):
            stored["withdrawn"] = decision.end
        if isinstance(decision, Over):
            stored["end"] = decision.end


@sequences
@given(steps, st.booleans())
def test_no_event_of_the_api_is_the_end_of_a_program(sequence, has_begun):
    """Without a record, an attempt is lost, or has failed because it could not start.

    The one exception is a program that the cluster killed at a limit of its own.
    """
    for _, _, decision in observe(sequence, has_begun=has_begun):
        assert not isinstance(decision, Recorded)
        end = getattr(decision, "end", None)
        if end is not None:
            assert not end.stands
            assert not end.early
            assert end.loss is not None or end.never or end.exit_code == 137
            assert end.fault


@sequences
@given(steps, st.booleans())
def test_an_absent_answer_is_no_proof(sequence, has_begun):
    for facts, _, decision in observe(sequence, has_begun=has_begun):
        if facts.is_away or not facts.is_synced:
            is_known = isinstance(decision, Over) and decision.is_written
            assert is_known or not isinstance(decision, Over | GiveUp | Withdraw | LookUp)


@sequences
@given(steps)
def test_an_attempt_that_has_begun_is_lost_only_with_proof(sequence):
    """No process of it can run: its pods are gone, and no record came for long."""
    for facts, memory, decision in observe(sequence, has_begun=True):
        assert not isinstance(decision, Over) or decision.is_written
        if isinstance(decision, GiveUp):
            assert facts.is_answered
            assert not facts.living
            assert not facts.silent
            assert memory.over_since_s is not None
            assert facts.now_s - memory.over_since_s >= LATE_S
            assert facts.jobset is not None or memory.is_gone


@sequences
@given(steps, st.booleans(), st.sampled_from([outcome(0), outcome(143, interrupted=True)]))
def test_a_final_decision_never_changes(sequence, has_begun, end_of_program):
    folder = {"has_begun": True, "outcome": end_of_program} if has_begun else {}
    first = None
    for _, _, decision in observe(sequence, **folder):
        if first is not None:
            assert decision == replace_written(first)
        elif isinstance(decision, Over):
            first = decision


def replace_written(over):
    return Over(over.end, is_written=True)


@sequences
@given(steps, st.sampled_from([outcome(0), outcome(3), outcome(signal=9)]))
def test_the_recorded_end_of_a_program_counts_whatever_the_api_shows(sequence, end_of_program):
    folder = {"has_begun": True, "is_ready": True, "outcome": end_of_program}
    for _, _, decision in observe(sequence, **folder):
        assert decision == Recorded()


@sequences
@given(steps, st.booleans())
def test_an_order_before_the_launcher_began_ends_the_attempt_early(sequence, is_lost):
    folder = {"order": Order(grace_s=1.0, lost=is_lost)}
    for _, _, decision in observe(sequence, **folder):
        assert isinstance(decision, Over)
        assert decision.end.early is not is_lost


@sequences
@given(steps)
def test_a_lost_replica_on_a_silent_node_is_not_believed(sequence):
    folder = {"has_begun": True, "outcome": Outcome(1, "worker-0 is lost"), "is_lost": True}
    for facts, _, decision in observe(sequence, **folder):
        if facts.silent and facts.is_answered and facts.end is None:
            assert type(decision).__name__ == "Unknown"
