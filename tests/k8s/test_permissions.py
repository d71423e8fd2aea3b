"""The account of the server needs exactly the rules of ``PERMISSIONS``."""

import pytest

from k8s.emulator.admission import Webhook
from k8s.live_cluster import MACHINE
from k8s.permitted import TOKEN, USER, permitting
from k8s.queues import create_queue
from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes import attempt_files
from trainshed.engines.kubernetes.permissions import PERMISSIONS
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Phase
from trainshed.model.faults import EngineFault
from trainshed.testing.engine_steps import (
    ended,
    eventually,
    launch,
    new_key,
    order,
    until,
)
from trainshed.testing.engine_world import WAITS, FakeProgram

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture
def world(live_cluster, tmp_path):
    create_queue(live_cluster, "train")
    world = KubernetesWorld(live_cluster, tmp_path)
    world.token = TOKEN
    with permitting(live_cluster) as give:
        give(*PERMISSIONS)
        yield world
        world.close()


def test_an_account_with_these_rules_alone_does_all_and_uses_every_one_of_them(world, live_cluster):
    engine, key, stopped = world.open(queue="train", probe_image=MACHINE), new_key(), new_key()
    eventually(lambda: live_cluster.api.server.list_audit("list", "/workloads"), "Kueue is found")
    # a server that is killed before it stores the answer finds its own JobSet
    launch(world, engine, key, WAITS)
    folder = AttemptFolder(f"{world.jobs}/{key.uid}/{key.attempt}")
    submission = attempt_files.read_submission(folder)
    attempt_files.keep_submission(folder, submission._replace(uid=""))
    again = world.open(queue="train", probe_image=MACHINE)
    launch(world, again, key, WAITS)
    launch(world, engine, stopped, WAITS)
    for one in (key, stopped):
        until(engine, one, Phase.READY)
    engine.stop(stopped, order(1.0))
    world.finish(key)
    assert ended(engine, key).exit_code == 0
    assert ended(engine, stopped).interrupted
    assert [finding for finding in engine.probe() if not finding.is_well] == []
    _refuse_a_jobset(world, engine, live_cluster)
    for one in (key, stopped):
        eventually(lambda one=one: engine.forget(one.uid), "the job is forgotten")
    rows = [row for row in live_cluster.api.server.audit if row.user == USER]
    denied = [row for row in rows if row.code in (401, 403)]
    assert [(row.verb, _resource_of(row.path)) for row in denied] == [("create", "jobsets")]
    assert _list_used(rows) == {
        (row.resource, verb) for row in PERMISSIONS for verb in row.verbs
    } | {("selfsubjectaccessreviews", "create")}


def _refuse_a_jobset(world, engine, cluster):
    """A policy refuses a JobSet: its Secret is deleted."""
    webhooks = cluster.api.admission.webhooks
    webhooks.append(Webhook("policy.example.com", lambda *_: "no gangs", ("JobSet",)))
    try:
        with pytest.raises(EngineFault, match="no gangs"):
            launch(world, engine, new_key(), FakeProgram())
    finally:
        webhooks.pop()


def _list_used(rows):
    """Each resource with each verb that the rows of the audit have."""
    return {(resource, row.verb) for row in rows if (resource := _resource_of(row.path))}


def _resource_of(path):
    """The resource in a path of the API; empty for discovery and versions."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return parts[0] if parts else ""
