"""Mistakes in the rules that the other tests of the state must notice."""

import pytest

from k8s import test_mapping_losses as losses
from k8s import test_mapping_runs as runs
from k8s import test_mapping_waits as waits
from k8s import test_state_objects as readings
from k8s import test_state_proof as proofs
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.kubernetes.state import causes, objects, proof, reasons
from trainshed.engines.kubernetes.state.facts import KubernetesFacts
from trainshed.model.attempt import Loss

real_conditions = objects._read_conditions


def swap(one, other):
    """Read each of two conditions as the other one."""
    names = {one: other, other: one}

    def read(obj):
        return {names.get(name, name): value for name, value in real_conditions(obj).items()}

    return read


def count_killed(facts):
    """A pod that a controller has killed as a cause of the end."""
    killed = [pod for pod in facts.pods if pod.phase == "Failed" or pod.is_deleting]
    return EndByCluster("killed", Loss.INFRA) if killed else None


def has_jobset(obj, uid, _claimant):
    return objects._labels(obj).get(objects.JOBSET_UID) == uid


ANSWERS = property(lambda facts: not facts.is_away)
ALWAYS = property(lambda _facts: True)
KILLED = tuple(
    (count_killed if find is causes._find_deleted_pod else find, is_weak)
    for find, is_weak in causes._CAUSES
)

MUTANTS = {
    "Completed is read as Failed": (
        (objects, "_read_conditions", swap("Completed", "Failed")),
        runs.test_b_primary_fails_without_records,
    ),
    "DisruptionTarget is read as PodScheduled": (
        (objects, "_read_conditions", swap("DisruptionTarget", "PodScheduled")),
        losses.test_e_eviction_restart,
    ),
    "Evicted is read as Admitted": (
        (objects, "_read_conditions", swap("Evicted", "Admitted")),
        losses.test_j_kueue_quota_preempt_of_the_preempted_job,
    ),
    "a list is believed before all lists were answered": (
        (KubernetesFacts, "is_answered", ANSWERS),
        proofs.test_an_absent_answer_neither_starts_nor_ends_a_proof,
    ),
    "an old list is believed while the API is away": (
        (KubernetesFacts, "is_answered", ALWAYS),
        proofs.test_an_absent_answer_neither_starts_nor_ends_a_proof,
    ),
    "killed workers of a completed JobSet are a cause": (
        (causes, "_CAUSES", KILLED),
        proofs.test_killed_workers_of_a_completed_jobset_are_no_cause,
    ),
    "the first cause is final": (
        (causes, "stronger", lambda cause, other: cause or other),
        losses.test_r_deadline,
    ),
    "a weak cause counts at once": (
        (proof, "_has_passed", lambda _since_s, _seconds, _facts: True),
        losses.test_r_deadline,
    ),
    "a silent node has lost its pods": (
        (KubernetesFacts, "silent", property(lambda _facts: ())),
        losses.test_f3_node_lost_with_a_launcher_that_gives_up_while_the_node_is_silent,
    ),
    "the pods of a removed node live on": (
        (KubernetesFacts, "is_removed", lambda _facts, _node: False),
        losses.test_f3_node_lost,
    ),
    "a pod of a later run is the attempt's": (
        (objects, "_is_pod_of", has_jobset),
        readings.test_only_the_pods_of_the_first_run_of_the_jobset_are_read,
    ),
    "every text of a failed pull is new": (
        (reasons, "describe_pull", reasons.quote),
        waits.test_m_cannot_start_with_one_text_for_one_trouble,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_noticed(mutant, monkeypatch):
    (target, name, value), check = MUTANTS[mutant]
    monkeypatch.setattr(target, name, value)
    with pytest.raises(AssertionError):
        check()
