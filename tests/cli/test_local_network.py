"""``--network job``: a local run with a network of its own, and where it is refused."""

import json
import os

import pytest

from cli.test_local_train import TELL, TRAIN, parse_log
from trainshed.engines.isolation.modes import USERS
from trainshed.engines.network.choose import try_network

CLUSTER = ("--distributed", "--worker-count", "1", "--parameter-server-count", "0")
#: Each replica listens on one port, which is free for all of them.
LISTENS = f"import socket\nserver = socket.create_server(('', 6379))\n{TELL}"


@pytest.mark.skipif(
    os.geteuid() != 0 or bool(try_network(USERS)), reason="run as root; apt install slirp4netns"
)
def test_replicas_of_a_local_run_may_each_have_a_network(trainshed, trainer):
    trainer(LISTENS)
    run = trainshed(*TRAIN, *CLUSTER, "--network", "job")
    assert run.code == 0, run.err
    replicas = parse_log(run)
    assert set(replicas) == {"master-replica-0", "worker-replica-0"}
    for replica in replicas.values():
        cluster = replica["cluster"]
        assert cluster == {"chief": ["198.18.1.16:2222"], "worker": ["198.18.1.17:2222"]}


def test_a_dry_run_shows_the_network_and_its_names(trainshed, trainer):
    trainer(TELL)
    words = (*TRAIN, *CLUSTER, "--network", "job", "--dry-run", "--format", "json")
    plan = json.loads(trainshed(*words).out)
    assert plan["network"] == {
        "layout": "replica",
        "addresses": ["198.18.1.16", "198.18.1.17"],
        "listeners": [],
    }
    assert ["198.18.1.17", "worker-replica-0"] in plan["hosts"]


@pytest.mark.parametrize("word", [(), ("--network", "host"), ("--network", "projects/7/vpc")])
def test_a_local_run_has_the_network_of_the_machine_unless_it_is_asked_for_another(
    trainshed, trainer, word
):
    trainer(TELL)
    plan = json.loads(trainshed(*TRAIN, *CLUSTER, *word, "--dry-run", "--format", "json").out)
    assert (plan["network"], plan["hosts"]) == (None, [])
    assert '"127.0.0.1:' in plan["replicas"][0]["env"]["TF_CONFIG"]


def test_a_network_of_google_s_is_said_to_mean_nothing_here(trainshed, trainer):
    trainer(TELL)
    answer = trainshed(*TRAIN, "--network", "projects/7/global/networks/vpc")
    assert answer.code == 0
    assert "--network has no effect on this machine" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gateway", "on"), "--gateway on does not go with --network job"),
        (("--start-port", "15000"), "--start-port: with --network job ports are always the same"),
    ],
)
def test_what_does_not_go_with_a_network_of_its_own_is_refused(trainshed, trainer, words, message):
    trainer(TELL)
    answer = trainshed(*TRAIN, "--network", "job", *words)
    assert answer.code == 2
    assert message in answer.err


def test_a_custom_job_may_have_a_network_of_its_own_too(trainshed, tmp_path):
    (tmp_path / "task.py").write_text("")
    words = ("--script", "task.py", "--network", "job", "--dry-run", "--format", "json")
    plan = json.loads(trainshed("ai", "custom-jobs", "local-run", *words).out)
    assert plan["network"] == {"layout": "job", "addresses": ["198.18.1.16"], "listeners": []}
