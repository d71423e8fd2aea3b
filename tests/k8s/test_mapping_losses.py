"""Attempts that the cluster or another user ends: which end, which budget, and when.

Each test is named after its trace.
"""

import pytest

from k8s.replaying import explanations, kinds, outcome, replay
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import Over, Recorded, Unknown
from trainshed.engines.kubernetes.state.proof import Withdraw
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.warden.protocol import ENDS_PROCESSES
from trainshed.model.attempt import Loss, Outcome
from trainshed.model.explanation import Reason

ORDER = Order(grace_s=5.0, reason="cancel")


def started(at_s):
    return (at_s, {"has_begun": True, "is_ready": True})


def interrupted(at_s, host="gpu-node-a"):
    """What the launcher records when a warden got SIGTERM: every program was stopped."""
    message = f"{host} {ENDS_PROCESSES}"
    return (at_s, {"outcome": outcome(143, interrupted=True, message=message)})


def lost(at_s, why):
    """What the launcher records when a warden is gone."""
    return (at_s, {"outcome": Outcome(exit_code=1, message=why), "is_lost": True})


def end_of(decisions):
    """The end that is stored, and when."""
    at_s, over = decisions[-1]
    assert isinstance(over, Over)
    return over.end, at_s


def test_e_eviction_restart():
    end, at_s = end_of(
        replay("e-eviction-restart", "j-e-a0", [started(1.4), interrupted(3.2)], until_s=60.0)
    )
    assert end == EndByCluster(
        "the cluster ends worker-0 on the node gpu-node-a (EvictionByEvictionAPI: Eviction API: "
        "evicting)",
        Loss.MAINTENANCE,
    )
    assert at_s == pytest.approx(3.2, abs=0.5)


def test_f_pod_deleted():
    """A deletion has no condition, and may be the effect of a cause that comes later."""
    end, at_s = end_of(
        replay("f-pod-deleted", "j-f-a0", [started(1.4), interrupted(2.2)], until_s=60.0)
    )
    assert end == EndByCluster(
        "another user or program has deleted the pod j-f-a0-worker-0-0-s8l2f (worker-0)",
        Loss.INFRA,
    )
    assert 6.9 < at_s < 9.0


def test_f1_node_drain():
    end, at_s = end_of(
        replay("f1-node-drain", "j-f1-a0", [started(1.4), interrupted(3.2)], until_s=60.0)
    )
    assert end.loss is Loss.MAINTENANCE
    assert end.fault == (
        "the cluster ends primary-0, worker-0, worker-1 on the node gpu-node-a "
        "(EvictionByEvictionAPI: Eviction API: evicting)"
    )
    assert at_s < 4.0


def test_f1_node_drain_that_kills_the_launcher():
    """Without a record the attempt is lost only after the records had time to come."""
    end, at_s = end_of(replay("f1-node-drain", "j-f1-a0", [started(1.4)], until_s=200.0))
    assert end.loss is Loss.MAINTENANCE
    assert at_s > 96.0


def test_f3_node_lost():
    """The state is unknown from the node's silence until its Node object is removed."""
    decisions = replay(
        "f3-node-lost",
        "j-f3-a0",
        [started(1.4), lost(110.0, "worker-0 is lost: its warden on gpu-node-b is gone")],
        until_s=200.0,
    )
    assert kinds(decisions) == ["Waits", "Runs", "Unknown", "Runs", "Over"]
    (unknown,) = [pair for pair in decisions if isinstance(pair[1], Unknown)]
    assert unknown[0] == pytest.approx(51.7, abs=1.0)
    assert unknown[1].waits.reason is Reason.ENGINE_AWAY
    assert unknown[1].waits.blockers == ("gpu-node-b",)
    for words in ("gpu-node-b", "kubectl delete node gpu-node-b", "trainshed attempts fence"):
        assert words in unknown[1].waits.message
    end, at_s = end_of(decisions)
    assert end == EndByCluster(
        "the node gpu-node-b of worker-0 was removed from the cluster", Loss.INFRA, ("gpu-node-b",)
    )
    assert at_s == pytest.approx(110.0, abs=1.0)


def test_f3_node_lost_with_a_launcher_that_gives_up_while_the_node_is_silent():
    """The record of a lost warden does not prove that its program has ended."""
    decisions = replay(
        "f3-node-lost",
        "j-f3-a0",
        [started(1.4), lost(70.0, "worker-0 is lost")],
        until_s=200.0,
    )
    assert kinds(decisions) == ["Waits", "Runs", "Unknown", "Over"]
    assert decisions[-1][0] == pytest.approx(83.1, abs=1.0)


def test_f3_node_lost_for_a_server_that_may_not_read_nodes():
    """The pod's event shows the silence, and the garbage collector of pods the removed node."""
    decisions = replay(
        "f3-node-lost",
        "j-f3-a0",
        [started(1.4), lost(70.0, "worker-0 is lost")],
        until_s=200.0,
        nodes=False,
    )
    assert kinds(decisions) == ["Waits", "Runs", "Unknown", "Over"]
    end, at_s = end_of(decisions)
    assert end.nodes == ("gpu-node-b",)
    assert at_s == pytest.approx(126.5, abs=1.0)


@pytest.mark.parametrize(
    ("trace", "order_s"), [("h-cancel-foreground", 3.9), ("h-cancel-background", 2.8)]
)
def test_h_cancel(trace, order_s):
    """An end that this server ordered needs no cause."""
    records = [started(order_s - 1.0), (order_s, {"order": ORDER}), interrupted(order_s + 1.8)]
    decisions = replay(trace, "j-h-a0", records, until_s=60.0)
    assert decisions[-1][1] == Recorded()
    assert decisions[-1][0] < order_s + 2.5


def test_h_cancel_foreground_of_a_launcher_that_is_killed():
    records = [started(3.0), (3.9, {"order": ORDER})]
    decisions = replay("h-cancel-foreground", "j-h-a0", records, until_s=200.0)
    end, at_s = end_of(decisions)
    assert end == EndByCluster(
        "the JobSet j-h-a0 does not exist any more, and no end is recorded", Loss.INFRA
    )
    assert at_s > 11.0 + 90.0
    assert "Unknown" not in kinds(decisions)


def test_h_cancel_foreground_by_another_user():
    decisions = replay(
        "h-cancel-foreground", "j-h-a0", [started(3.0), interrupted(5.0)], until_s=60.0
    )
    end, at_s = end_of(decisions)
    assert end.loss is Loss.INFRA
    assert end.fault.startswith("another user or program has deleted the JobSet j-h-a0")
    assert at_s == pytest.approx(5.0, abs=1.0)


def test_h_cancel_background_by_another_user_that_makes_the_jobset_again():
    """Pods outlive their JobSet; another JobSet of the name is not the attempt's."""
    decisions = replay("h-cancel-background", "j-h-a0", [started(2.0)], until_s=200.0)
    end, at_s = end_of(decisions)
    assert end.loss is Loss.INFRA
    assert "has created another one of this name (uid 98e19869-" in end.fault
    assert at_s > 9.3 + 90.0
    assert kinds(decisions) == ["Waits", "Runs", "Over"]


def test_h_cancel_background_before_the_launcher_begins():
    """With the server's claim no pod begins the attempt, so the loss is certain at once."""
    decisions = replay("h-cancel-background", "j-h-a0", until_s=60.0)
    end, at_s = end_of(decisions)
    assert end.loss is Loss.INFRA
    assert at_s == pytest.approx(3.6, abs=0.5)


def test_j_kueue_quota_preempt_of_the_preempted_job():
    decisions = replay(
        "j-kueue-quota-preempt", "j-a-a0", [started(1.5), interrupted(6.4)], until_s=60.0
    )
    withdrawn = [pair for pair in decisions if isinstance(pair[1], Withdraw)]
    assert [at_s for at_s, _ in withdrawn] == [pytest.approx(5.75, abs=0.2)]
    end, at_s = end_of(decisions)
    assert end == withdrawn[0][1].end
    assert end.loss is Loss.MAINTENANCE
    assert end.fault.startswith(
        "Kueue has evicted the JobSet j-a-a0 in the queue train-q (Preempted: Preempted to "
        "accommodate a workload"
    )
    assert at_s == pytest.approx(6.4, abs=1.0)


def test_j_kueue_quota_preempt_of_a_launcher_that_is_killed():
    """The queue admits the JobSet again; its new pods find the claim and start nothing."""
    decisions = replay("j-kueue-quota-preempt", "j-a-a0", [started(1.5)], until_s=200.0)
    end, _ = end_of(decisions)
    assert end.loss is Loss.MAINTENANCE
    assert kinds(decisions)[-2:] == ["Runs", "Over"]


def test_j2_kueue_never_of_a_job_that_another_user_lets_run():
    """Kueue suspends it again; an attempt that began in between is lost, and starts only once."""
    records = [(9.9, {"has_begun": True}), interrupted(12.0)]
    decisions = replay("j2-kueue-never", "j-big-a0", records, until_s=60.0)
    end, _ = end_of(decisions)
    assert end == EndByCluster(
        "the JobSet j-big-a0 was suspended after the attempt had begun, and Trainshed starts an "
        "attempt only once",
        Loss.INFRA,
    )


def test_m2_bad_command_oom():
    """The launcher knows only that the warden is gone; the container's last state says why."""
    end, at_s = end_of(
        replay(
            "m2-bad-command-oom",
            "j-oom-a0",
            [started(5.2), lost(5.5, "worker-0 is lost: its warden closed the connection")],
            until_s=60.0,
        )
    )
    assert end == EndByCluster(
        "worker-0 was killed by SIGKILL: out of memory at its limit of 64Mi", exit_code=137
    )
    assert at_s == pytest.approx(5.6, abs=0.2)


def test_r_deadline():
    """The event of the deadline comes a second after the pods have ended."""
    end, at_s = end_of(
        replay("r-deadline", "j-r-a0", [started(1.4), interrupted(4.7)], until_s=60.0)
    )
    assert end == EndByCluster(
        "the JobSet j-r-a0 has reached its time limit (activeDeadlineSeconds)", Loss.LIMIT
    )
    assert at_s == pytest.approx(5.5, abs=0.5)


def test_no_trace_of_a_loss_explains_a_wait_while_the_attempt_runs():
    decisions = replay("e-eviction-restart", "j-e-a0", [started(0.9), interrupted(3.2)])
    assert [e.reason for e in explanations(decisions)] == [Reason.ENGINE_QUEUE]
