"""Attempts that end by themselves: the records show the end, whatever the cluster shows.

Each test is named after its trace.
"""

import pytest

from k8s.recorded import read_trace
from k8s.replaying import Cluster, explanations, kinds, outcome, replay
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import Over, Recorded, Runs
from trainshed.engines.kubernetes.state import objects
from trainshed.model.attempt import Loss
from trainshed.model.explanation import Reason

READY = {"has_begun": True, "is_ready": True}


def started(at_s):
    return (at_s, READY)


def ended(at_s, code=0, **more):
    return (at_s, {"outcome": outcome(code, **more)})


def test_a_success():
    decisions = replay("a-success", "j-1001-a0", [started(1.5), ended(7.6)])
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]
    (waits,) = explanations(decisions)
    assert waits.reason is Reason.ENGINE_QUEUE
    assert "JobSet j-1001-a0" in waits.message
    assert decisions[-1][0] == pytest.approx(7.6, abs=1.0)


def test_a_success_with_late_records():
    """The controller kills the workers of a completed JobSet; their pods are no failures."""
    decisions = replay("a-success", "j-1001-a0", [started(1.5), ended(60.0)], until_s=70.0)
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]
    assert decisions[-1][0] == pytest.approx(60.0, abs=1.0)


def test_a_success_without_records():
    """A completed JobSet proves nothing: its launcher may have started nothing."""
    decisions = replay("a-success", "j-1001-a0", [started(1.5)], until_s=200.0)
    assert kinds(decisions) == ["Waits", "Runs", "Over"]
    at_s, over = decisions[-1]
    assert over.end.loss is Loss.INFRA
    assert at_s > 90.0
    assert not over.end.stands


def test_b_primary_fails():
    decisions = replay("b-primary-fails", "j-1002-a0", [started(3.0), ended(6.1, 3)])
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]
    assert decisions[-1][0] < 7.0


def test_b_primary_fails_without_records():
    """The sentence names the container that failed, and none that the controller has killed."""
    decisions = replay("b-primary-fails", "j-1002-a0", [started(3.0)], until_s=200.0)
    over = decisions[-1][1]
    assert over == Over(
        EndByCluster(
            "the JobSet j-1002-a0 has failed (ReachedMaxRestarts: jobset failed due to reaching "
            "max number of restarts (first failed job: j-1002-a0-primary-0); the container main of "
            "primary-0 ended with exit code 3, Error), and no end is recorded",
            Loss.INFRA,
        ),
        takes_claim=True,
    )


def test_m2_bad_command_oom_of_a_program_that_is_killed_by_a_signal():
    decisions = replay("m2-bad-command-oom", "j-seg-a0", [started(8.5), ended(10.8, signal=11)])
    assert decisions[-1][1] == Recorded()
    assert decisions[-1][0] < 12.0


def test_o_env_dns():
    cluster = Cluster()
    for record in read_trace("o-env-dns"):
        cluster.apply(record)
    (jobset,) = map(objects.read_jobset, cluster.objects["JobSet"].values())
    pods = objects.read_pods(cluster.objects["Pod"].values(), jobset.uid)
    assert jobset.replicas == {"primary": 1, "worker": 2, "ps": 1, "evaluator": 1}
    assert sorted((pod.role, pod.index) for pod in pods) == [
        ("evaluator", 0),
        ("primary", 0),
        ("ps", 0),
        ("worker", 0),
        ("worker", 1),
    ]
    assert all(pod.is_over and pod.has_started for pod in pods)
    decisions = replay("o-env-dns", "j-o-a0", [started(2.0), ended(3.0)])
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]


def test_t_workers_end_first():
    """Workers may end before the primary: the attempt goes on."""
    decisions = replay("t-workers-end-first", "j-t-a0", [started(2.5), ended(9.5)])
    assert kinds(decisions) == ["Waits", "Runs", "Recorded"]
    assert all(decision == Runs() for at_s, decision in decisions if 2.5 < at_s < 9.5)


def test_t_workers_end_first_of_an_evaluator_that_fails():
    decisions = replay("t-workers-end-first", "j-u-a0", [started(2.0), ended(6.5, 9)])
    assert decisions[-1][1] == Recorded()
    assert decisions[-1][0] < 8.0
