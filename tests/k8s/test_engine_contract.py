"""The Kubernetes engine keeps the contract of engines, on a cluster whose pods are processes.

Or on the cluster that the environment names; see README.md in this folder.
"""

from functools import cache

import pytest

from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes import runtime
from trainshed.testing.program_contract import ProgramContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True, scope="module")
def bundle_once():
    """Bundle the interpreter for pods once; a test opens several engines, each as a new server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "bundle", cache(runtime.bundle))
        yield


DECIDES = "test_the_primary_or_the_first_failure_decides_and_waiting_replicas_are_stopped"


class TestKubernetesEngine(ProgramContract):
    #: What differs most from other engines: a gang of pods, ends that the cluster causes, and the
    #: API's lists; each takes a second or two.  test_interrupted_launches.py kills launches at each
    #: step.
    QUICK = frozenset(
        {
            "test_a_gang_with_a_missing_program_is_a_fault_and_leaves_no_process",
            "test_a_notice_says_why_and_until_when_before_the_signal",
            "test_a_program_finds_what_its_plan_says_and_no_secret",
            "test_a_queue_that_answers_nothing_loses_nothing",
            "test_a_running_attempt_cannot_be_fenced",
            "test_every_line_is_kept_once_and_in_order",
            "test_reports_are_read_from_a_mark_to_the_last_one",
            f"{DECIDES}[Role.EVALUATOR-0]",
            f"{DECIDES}[Role.PARAMETER_SERVER-7]",
            "test_what_lives_is_known_and_what_is_left_is_found",
            "test_what_loses_its_places_by_order_is_lost_for_maintenance",
            "test_what_was_stopped_before_never_starts",
        }
    )

    @pytest.fixture
    def world(self, any_cluster, tmp_path):
        world = KubernetesWorld(any_cluster, tmp_path)
        yield world
        world.close()
