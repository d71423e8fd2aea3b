"""The backend in worlds of real processes: sums, every collective, DDP, and what errors do."""

import json

import pytest

from reduction.torch_world import reducers, run_world

pytestmark = pytest.mark.slow

ALWAYS = {"TRAINSHED_REDUCTION_ROUTE": "always"}


def assert_right(answers):
    for answer in answers:
        assert [name for name, right in answer["found"].items() if not right] == []


def assert_same(things):
    assert len(set(things)) == 1, things


def test_everything_that_torch_can_do_works_over_reducers(tmp_path):
    with reducers(3) as addresses:
        variables = {"TRAINSHED_REDUCERS": addresses, **ALWAYS}
        answers = run_world("everything", tmp_path, variables, [{}] * 3)
    assert_right(answers)
    for how in ("group", "gloo", "hook"):
        assert_same(answer["digests"][how] for answer in answers)
        assert answers[0]["values"][how] == pytest.approx(answers[0]["values"]["gloo"], rel=1e-4)


@pytest.mark.full  # examples/test_first_epochs.py trains one
def test_an_unchanged_trainer_reduces_with_a_share_of_each_worker(tmp_path):
    with reducers(1) as addresses:
        variables = {
            "TRAINSHED_REDUCERS": addresses,
            "TRAINSHED_TORCH_BACKEND": "reduction",
            "TRAINSHED_REDUCTION_REPORT": str(tmp_path / "report"),
        }
        answers = run_world("unchanged", tmp_path, variables, [{}] * 3)
    assert_right(answers)
    assert_same(answer["digest"] for answer in answers)
    assert_same(answer["routes"] for answer in answers)
    report = json.loads((tmp_path / "report").read_text())
    assert (report["version"], report["world"], report["reducers"]) == (1, 3, 1)
    assert report["worker_link_mbps"] > 0
    assert report["rounds"] == answers[0]["by reducers"]


def test_workers_reduce_too_where_reducers_are_slower_than_a_ring(tmp_path):
    with reducers(2) as addresses:
        hosts = [{"TRAINSHED_REDUCTION_HOST": f"127.0.0.{rank + 1}"} for rank in range(2)]
        answers = run_world("slow_reducers", tmp_path, {"TRAINSHED_REDUCERS": addresses}, hosts)
    assert_right(answers)


@pytest.mark.full  # e2e/test_reduction.py has a worker that dies
def test_a_worker_that_dies_is_named_to_the_others_and_nobody_hangs(tmp_path):
    """No reducers at all here: the workers reduce by themselves."""
    *answers, dead = run_world("dying", tmp_path, {"VICTIM": "2", **ALWAYS}, [{}] * 3)
    assert dead == {}
    for answer in answers:
        assert answer["sums are right"]
        assert answer["backward raised it"]
        assert [culprit for _, culprit in answer["errors"]] == ["worker 2"] * 3


VICTIMS = [
    pytest.param("abb", 2, marks=pytest.mark.full, id="member"),
    pytest.param("aab", 0, id="leader"),
]


@pytest.mark.parametrize(("names", "victim"), VICTIMS)
def test_a_rank_of_a_shared_host_that_dies_ends_all_all_reduces(tmp_path, names, victim):
    variables = {"VICTIM": str(victim), "TRAINSHED_REDUCTION_LOCAL": "1", **ALWAYS}
    environments = [{"TRAINSHED_REDUCTION_HOSTNAME": name} for name in names]
    answers = run_world("dying", tmp_path, variables, environments)
    assert answers.pop(victim) == {}
    for answer in answers:
        assert answer["backward raised it"]
        assert len(answer["errors"]) == 3


def test_ranks_that_share_a_host_send_its_gradient_once(tmp_path):
    with reducers(1) as addresses:
        variables = {"TRAINSHED_REDUCERS": addresses, "TRAINSHED_REDUCTION_LOCAL": "1", **ALWAYS}
        environments = [{"TRAINSHED_REDUCTION_HOSTNAME": name} for name in "aab"]
        answers = run_world("hosts", tmp_path, variables, environments)
    assert_right(answers)
    assert_same(answer["digest"] for answer in answers)
    for answer in answers[:2]:
        assert answer["errors"] == ["reducer 0 has caught fire"] * 2
    assert len(answers[2]["errors"]) == 2


def test_a_group_that_cannot_be_formed_fails_on_all_ranks_with_one_reason(tmp_path):
    with reducers(2) as addresses:
        environments = [{}, {"TRAINSHED_REDUCTION_TOKEN": "f" * 32}]
        answers = run_world("unformed", tmp_path, {"TRAINSHED_REDUCERS": addresses}, environments)
    reasons = [
        "worker 1 has another token than worker 0; give all workers the same one",
        "TRAINSHED_REDUCTION_ROUTE must be measured or always, got 'sometimes'",
        "TRAINSHED_REDUCTION_MAX_STAGING must be bytes, or a number with K, M, G or T, got 'much'",
        "TRAINSHED_REDUCERS must be a list of HOST:PORT, got 'nowhere'",
    ]
    for answer in answers:
        errors = [
            error.replace("worker 0: ", "").replace("worker 1: ", "") for error in answer["errors"]
        ]
        assert errors == reasons
        assert answer["left"] == 0
