"""What ``trainshed doctor --engine`` says of a cluster: answers of the API and of two pods."""

import os
from dataclasses import replace

import pytest

from k8s.emulator.admission import Webhook
from k8s.live_cluster import MACHINE
from k8s.permitted import TOKEN, permitting
from k8s.queues import create_queue
from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes.permissions import PERMISSIONS
from trainshed.engines.kubernetes.probing import exchange, run
from trainshed.model.attempt import Phase
from trainshed.testing.engine_steps import FINAL, launch, new_key, until
from trainshed.testing.engine_world import WAITS

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture
def world(live_cluster, tmp_path):
    world = KubernetesWorld(live_cluster, tmp_path)
    yield world
    world.close()


@pytest.fixture
def probed(world, live_cluster):
    """The findings of a probe by their names; nothing of it is left."""

    def probe(**settings):
        engine = world.open(**{"probe_image": MACHINE, **settings})
        folders = set(world.jobs.parent.iterdir())
        findings = {finding.check: finding for finding in engine.probe()}
        assert set(world.jobs.parent.iterdir()) == folders
        for kind in ("JobSet", "Job", "Pod", "Service", "Secret"):
            rows, _ = live_cluster.store.list(kind, "default")
            assert not [row for row in rows if row["metadata"]["name"].startswith("ts-probe")]
        return findings

    return probe


def test_a_cluster_that_is_well_has_nothing_to_change(probed):
    findings = probed()
    assert not [finding for finding in findings.values() if not finding.is_well]
    assert list(findings) == [
        "version",
        "JobSet",
        "permissions",
        "nodes",
        "Kueue",
        "claim",
        "interpreter of the claim",
        "shared claim, seen from a pod",
        "shared claim, seen from the server",
        "owner of files",
        "clock",
        "names of pods",
        "first line",
    ]


def test_an_account_that_may_not_list_nodes_is_told_which_rule_that_needs(
    probed, world, live_cluster
):
    world.token = TOKEN
    with permitting(live_cluster) as give:
        give(*[row for row in PERMISSIONS if row.is_needed])
        findings = probed()
    assert not [finding for finding in findings.values() if not finding.is_well]
    assert "may not list nodes" in findings["nodes"].found
    rule = '- {apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]}'
    text = findings["permission for nodes"].found
    assert text.startswith(f"the ClusterRole lacks the rule {rule}; jobs run without it")
    assert findings["claim"].found.endswith("which the account may not read")


def test_a_missing_rule_starts_no_pod(probed, world, live_cluster):
    world.token = TOKEN
    with permitting(live_cluster) as give:
        give(*[row for row in PERMISSIONS if row.resource != "secrets"])
        findings = probed()
    assert 'resources: ["secrets"]' in findings["permissions"].found
    assert "give pods the secret" in findings["permissions"].advice
    assert findings["answer"].found.startswith("not checked, because jobs cannot start: the claim")


def test_without_an_image_the_probe_says_what_it_did_not_check(probed):
    finding = probed(probe_image="")["answer"]
    assert not finding.is_well
    for words in ("clocks", "names of pods", "the first line"):
        assert words in finding.found
    assert "`probe_image`" in finding.advice


def test_a_claim_that_is_mounted_noexec_is_named(live_cluster, probed, world, monkeypatch):
    row = live_cluster.claims.find("default", world.claim)
    noexec = replace(row, is_noexec=True)
    monkeypatch.setattr(live_cluster.claims, "find", lambda *_: noexec)
    finding = probed()["pods of the probe"]
    assert "permission denied" in finding.found
    assert "not mounted with noexec" in finding.found


def test_a_claim_whose_files_another_user_owns_is_named(monkeypatch, probed):
    """As with a file server that squashes the id of the launcher."""
    lstat = os.lstat

    def squash(path, **more):
        status = lstat(path, **more)
        if "greeting-launcher" not in str(path):
            return status
        return os.stat_result([*status[:4], 65534, *status[5:]])

    monkeypatch.setattr(exchange.os, "lstat", squash)
    finding = probed()["owner of files"]
    assert not finding.is_well
    assert "sees the user 65534 as the owner of their files" in finding.found


def test_a_claim_that_pods_cannot_write_is_named(probed, monkeypatch):
    monkeypatch.setattr(exchange, "_MODE", 0o555)
    finding = probed(security={"run_as_user": 1234, "run_as_group": 1234})["pods of the probe"]
    assert "no answer of the container" in finding.found
    assert "check that pods can write files in the claim" in finding.found


def test_an_image_that_cannot_be_pulled_and_its_secret_are_named(probed, monkeypatch):
    monkeypatch.setattr(run, "_PATIENCE_S", 1.0)
    finding = probed(probe_image="registry.test/absent:1", image_pull_secrets=["absent"])[
        "pods of the probe"
    ]
    assert "cannot pull the image registry.test/absent:1" in finding.found
    assert "has no image pull secret absent" in finding.found


def test_a_queue_that_is_not_there_is_named(probed):
    findings = probed(queue="absent")
    assert findings["queue"].found == "the namespace default has no LocalQueue absent"
    assert "not checked" in findings["answer"].found


def test_a_policy_that_refuses_the_pods_is_named(live_cluster, probed):
    webhooks = live_cluster.api.admission.webhooks
    webhooks.append(Webhook("policy.example.com", lambda *_: "no root here", ("Pod",)))
    try:
        finding = probed()["pods of the probe"]
    finally:
        webhooks.pop()
    assert "no root here; a policy of the cluster refuses such pods" in finding.found


def test_a_probe_of_a_queue_waits_until_it_is_admitted(probed, live_cluster):
    create_queue(live_cluster, "train")
    findings = probed(queue="train")
    assert not [finding for finding in findings.values() if not finding.is_well]
    assert findings["Kueue"].found == "kueue.x-k8s.io v1beta2; the queues of the settings are train"


def test_a_job_whose_launcher_cannot_write_in_the_claim_says_so(world, live_cluster, monkeypatch):
    row = replace(live_cluster.claims.find("default", world.claim), is_read_only=True)
    monkeypatch.setattr(live_cluster.claims, "find", lambda *_: row)
    engine, key = world.engine(), new_key()
    launch(world, engine, key, WAITS, WAITS)
    end = until(engine, key, *FINAL)
    assert (end.phase, end.loss) == (Phase.ENDED, None)
    assert "Read-only file system: '/trainshed/attempt/claim'" in end.fault
    assert world.started(key) == 0
