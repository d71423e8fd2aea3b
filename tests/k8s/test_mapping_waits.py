"""Attempts that wait or cannot start: the reason in words, and when the server gives up.

Each test is named after its trace.
"""

import pytest

from k8s.recorded import read_trace
from k8s.replaying import explanations, kinds, outcome, replay
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import Over, Recorded
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.proof import Withdraw
from trainshed.engines.kubernetes.state.refusals import judge_refusal
from trainshed.model.attempt import Loss
from trainshed.model.explanation import Reason

BEGUN = {"has_begun": True}


def last_reason(decisions):
    return explanations(decisions)[-1]


def withdrawals(decisions):
    return [(at_s, d.end) for at_s, d in decisions if isinstance(d, Withdraw)]


def test_i_unschedulable():
    decisions = replay("i-unschedulable", "j-i-a0", [(2.2, BEGUN)], until_s=11.0)
    assert kinds(decisions) == ["Waits", "Runs"]
    waits = last_reason(decisions)
    assert waits.reason is Reason.CAPACITY
    assert waits.message == (
        "the evaluator and 2 of 2 workers have no place: 1 node does not match the job's node "
        "selector, 1 node has a taint that the job does not tolerate, 1 node lacks nvidia.com/gpu"
    )


def test_i_unschedulable_gives_places_back():
    """The sentence says who was missing and why; the next attempt has the infra budget."""
    decisions = replay(
        "i-unschedulable", "j-i-a0", [(2.2, BEGUN)], until_s=60.0, start_timeout_s=5.0
    )
    ((at_s, end),) = withdrawals(decisions)
    assert at_s == pytest.approx(6.5, abs=1.0)
    assert end.loss is Loss.MAINTENANCE
    assert end.fault.startswith("2 of 2 workers and the evaluator did not start within 5 s: ")
    assert "1 node lacks nvidia.com/gpu" in end.fault


def test_j_kueue_quota_preempt_of_the_waiting_job():
    records = [(35.0, {"has_begun": True, "is_ready": True}), (38.9, {"outcome": outcome()})]
    decisions = replay("j-kueue-quota-preempt", "j-b-a0", records)
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]
    reasons = [waits.reason for waits in explanations(decisions)]
    assert Reason.QUOTA in reasons
    (text,) = {w.message for w in explanations(decisions) if w.reason is Reason.QUOTA}
    assert text == (
        "other jobs use the quota of the queue train-q (Kueue says WaitingForQuota: couldn't "
        "assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor "
        "h200, 2 more needed)"
    )
    assert decisions[-1][1] == Recorded()


def test_j_kueue_quota_preempt_of_the_job_that_preempts():
    decisions = replay("j-kueue-quota-preempt", "j-c-a0")
    texts = [waits.message for waits in explanations(decisions)]
    assert any(t.startswith("the queue train-q is ending other jobs to make room") for t in texts)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("j-big-a0", Reason.HELD, "the queue held-q is stopped"),
        ("j-noq-a0", Reason.NO_SUCH_NODE, "the queue no-such-queue, or its ClusterQueue, does not"),
        ("j-held-a0", Reason.HELD, "the queue held-q is stopped: an administrator must start it"),
        ("j-orph-a0", Reason.NO_SUCH_NODE, "ClusterQueue no-such-cq doesn't exist"),
        ("j-prio-a0", Reason.HELD, "Kueue does not know the priority class no-such-class"),
    ],
)
def test_j2_kueue_never(name, reason, words):
    decisions = [pair for pair in replay("j2-kueue-never", name) if pair[0] < 15.0]
    assert set(kinds(decisions)) <= {"Waits", "Runs"}
    assert last_reason(decisions).reason is reason
    assert words in last_reason(decisions).message


def test_j2_kueue_never_of_a_job_larger_than_the_quota():
    decisions = [pair for pair in replay("j2-kueue-never", "j-big-a0") if pair[0] < 8.0]
    assert last_reason(decisions).reason is Reason.NO_SUCH_NODE
    assert "needs more than the whole quota of the queue train-q" in last_reason(decisions).message


def test_j2_kueue_never_of_a_job_that_another_user_lets_run_before_it_begins():
    """Pods lived for some seconds, no launcher began: the attempt goes on waiting."""
    decisions = [pair for pair in replay("j2-kueue-never", "j-big-a0") if pair[0] < 15.0]
    assert kinds(decisions) == ["Waits"]


def test_k_invalid():
    """A request that the API refuses as invalid is refused at every try."""
    responses = [r for r in read_trace("k-invalid") if r["rec"] == "response" and "body" in r]
    refused = [r["body"]["message"] for r in responses if r["status"] in {400, 422}]
    assert len(refused) > 10
    for message in refused:
        refusal = judge_refusal(message)
        assert not refusal.heals or "API version" in message, message
        assert refusal.text.startswith(" ".join(message.split())[:200])


def test_k2_accepted_but_broken():
    """The API accepts the JobSet, and refuses one of its Jobs: the gang can never start."""
    decisions = replay("k2-accepted-but-broken", "j-ra-a0")
    at_s, over = decisions[-1]
    assert at_s < 1.0
    assert over.end == EndByCluster(
        'the cluster creates no pods for the worker: job "j-ra-a0-worker-0" creation failed with '
        'error: Job.batch "j-ra-a0-worker-0" is invalid: spec.template.spec.restartPolicy: '
        'Required value: valid values: "OnFailure", "Never"; correct the job, or the [[engine]] '
        "table of the cluster",
        never=True,
    )


def test_k2_accepted_but_broken_after_the_launcher_began():
    """The launcher waits for the worker: the server deletes the JobSet."""
    decisions = replay("k2-accepted-but-broken", "j-ra-a0", [(0.0, BEGUN)])
    ((at_s, end),) = withdrawals(decisions)
    assert at_s < 1.0
    assert end.never


def test_k2_accepted_but_broken_without_any_job():
    decisions = replay("k2-accepted-but-broken", "j-im-a0")
    assert decisions[-1][1].end.never
    assert "containers[0].image: Required value" in decisions[-1][1].end.fault


def test_m_cannot_start():
    """A name that is no image's cannot heal: the attempt fails at once, and no program runs."""
    decisions = replay("m-cannot-start", "j-m-a0")
    at_s, over = decisions[-1]
    assert at_s == pytest.approx(1.2, abs=0.1)
    assert over.end.never
    assert over.end.fault.startswith(
        "badname-0 cannot start: Team//Trainer:9 is no name of an image; correct the image of the "
        "job (Failed to apply default image tag"
    )


def test_m_cannot_start_for_an_image_that_may_come():
    decisions = replay(
        "m-cannot-start",
        "j-m-a0",
        [(1.1, BEGUN)],
        without=("badname", "nosecret"),
        image_timeout_s=20.0,
        until_s=60.0,
    )
    assert explanations(decisions)[-1].reason is Reason.IMAGE
    assert explanations(decisions)[-1].message == (
        "the node gpu-node-a cannot pull the image registry.invalid/team/trainer:9 of badimage-0: "
        'failed to do request: Head "https://registry.invalid/v2/team/trainer/manifests/9": dial '
        "tcp: lookup registry.invalid on 192.0.2.53:53: read udp 10.88.0.1->192.0.2.53:53: i/o "
        "timeout; check the name of the image, the registry, and the pull secret of the [[engine]] "
        "table"
    )
    ((at_s, end),) = withdrawals(decisions)
    assert at_s == pytest.approx(31.2, abs=1.0)
    assert end.never
    assert end.fault.endswith("(for 20 s)")


def test_m_cannot_start_with_one_text_for_one_trouble():
    """The server stores every new text: a back-off and a new try have the same one."""
    decisions = replay("m-cannot-start", "j-m-a0", [(1.1, BEGUN)], without=("badname", "nosecret"))
    texts = [e.message for e in explanations(decisions) if e.reason is Reason.IMAGE]
    assert len(texts) == 1


def test_m_cannot_start_without_a_secret():
    decisions = replay(
        "m-cannot-start",
        "j-m-a0",
        [(1.1, BEGUN)],
        without=("badname", "badimage"),
        start_timeout_s=20.0,
    )
    assert explanations(decisions)[-1].reason is Reason.NOT_STARTING
    assert 'nosecret-0 cannot start: secret "no-such-secret" not found' in (
        explanations(decisions)[-1].message
    )
    ((at_s, end),) = withdrawals(decisions)
    assert at_s == pytest.approx(20.0, abs=2.0)
    assert end.never


def test_m2_bad_command_oom_of_a_program_that_does_not_exist():
    decisions = replay("m2-bad-command-oom", "j-cmd-a0", [(1.0, BEGUN)])
    ((at_s, end),) = withdrawals(decisions)
    assert at_s == pytest.approx(1.6, abs=0.1)
    assert end == EndByCluster(
        'worker-0 cannot start on the node gpu-node-a: exec: "/no/such/binary": stat '
        "/no/such/binary: no such file or directory; check that the node mounts the same claim as "
        "the server, whose `spool` must be the folder of `claim`",
        never=True,
    )


def test_p_api_errors():
    """Only a 404 about the JobSet itself proves that the JobSet does not exist."""
    proofs = [
        objects.proves_absence(
            response["status"],
            response.get("body", {}).get("reason", ""),
            response.get("body", {}).get("details", {}),
            "no-such",
        )
        for response in read_trace("p-api-errors")
        if response["rec"] == "response"
    ]
    assert proofs[0] is True
    assert len(proofs) > 5
    assert not any(proofs[1:])


def test_p2_namespace_quota():
    """The primary's pod runs alone: the launcher waits, and the reason is the API's sentence."""
    decisions = [p for p in replay("p2-namespace-quota", "j-p-a0", [(0.7, BEGUN)]) if p[0] < 9.0]
    assert "Over" not in kinds(decisions)
    waits = last_reason(decisions)
    assert waits.reason is Reason.NOT_STARTING
    assert waits.message == (
        "the cluster creates no pods for the worker: exceeded quota: q, requested: "
        "pods=1,requests.nvidia.com/gpu=1, used: pods=1,requests.nvidia.com/gpu=1, limited: "
        "pods=1,requests.nvidia.com/gpu=1; wait until other objects of the namespace free the "
        "quota, or let an administrator raise the ResourceQuota"
    )
    assert len({e.message for e in explanations(decisions) if e.reason is waits.reason}) == 1


def test_p2_namespace_quota_of_a_completed_jobset():
    """The primary of this trace ended alone: a completed JobSet does not mean that workers ran."""
    decisions = replay("p2-namespace-quota", "j-p-a0", [(0.7, BEGUN)], until_s=200.0)
    over = decisions[-1][1]
    assert isinstance(over, Over)
    assert over.end.loss is Loss.INFRA
