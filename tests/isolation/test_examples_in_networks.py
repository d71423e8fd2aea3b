"""The examples learn the same in networks of their own as in the network of the machine."""

import json

import pytest

from isolation.calls import make_bucket
from isolation.expected import OWN_USERS, USERS
from isolation.scene import ALPHA, staged
from isolation.test_examples import CASES, TORCH, is_there, reduced, trained
from trainshed.engines.network.choose import try_network

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = ("torch-ddp", "tf-multiworker", "tf-parameter-server", "jax-data-parallel", "tuning")
#: Its workers take turns as they come: no two runs of it are alike.
ASYNCHRONOUS = "tf-parameter-server"


@pytest.mark.skipif(bool(try_network("users")), reason="run as root; apt install slirp4netns")
def test_the_examples_learn_the_same_in_a_network_of_their_own(tmp_path):
    on_host, own = results_of(USERS, tmp_path), results_of(OWN_USERS, tmp_path)
    assert {name: state for name, (state, _) in own.items() if "SUCCEEDED" not in state} == {}
    assert {**own, ASYNCHRONOUS: ()} == {**on_host, ASYNCHRONOUS: ()}


def results_of(mode, folder):
    """By example: the job's last state, and what it has written of its result."""
    with staged(mode) as scene:
        make_bucket(scene, ALPHA, "alpha-bucket")
        results = {}
        for example in EXAMPLES:
            args, modules, fewer = CASES[example]
            if is_there(modules):
                state, log = trained(scene, example, args, fewer, folder)
                assert ("network: of its own" in log) is (mode is OWN_USERS) or example == "tuning"
                results[example] = state, result_of(scene, example)
        if is_there(TORCH):
            results["torch-reduction"] = reduced(scene)[0], result_of(scene, "torch-reduction")
        return results


def result_of(scene, example):
    """Its results without how long they took.

    Of a study that of its first trial: the parameters of others are drawn by the study's number.
    """
    bucket = scene.data / "buckets" / "alpha-bucket" / example.replace("-", "_")
    path = min(bucket.rglob("result.json"))
    return {k: v for k, v in json.loads(path.read_text()).items() if "second" not in k}
