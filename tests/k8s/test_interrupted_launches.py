"""A launch is killed at each of its steps: one JobSet, and nothing is left in the cluster."""

from pathlib import Path

import pytest

from e2e.support import wait_until
from k8s.emulator.admission import Webhook
from k8s.emulator.api import start_api
from k8s.http_calls import make_jobset
from k8s.interrupted_launches import (
    INSTALLATION,
    CrashWorld,
    DiesAfterDelete,
    Killed,
    Steps,
    StoredWithError,
)
from trainshed.engines.base import LaunchRefused
from trainshed.engines.kubernetes import names
from trainshed.engines.spool import Spool
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.stopping import StopOrder, StopReason

ORDER = StopOrder(grace_s=1.0, reason=StopReason.CANCEL, message="cancelled")


@pytest.fixture
def world(tmp_path, monkeypatch):
    with start_api() as api:
        world = CrashWorld(api, tmp_path, monkeypatch)
        yield world
        world.close()


def kill_at_each_step(world, **more):
    """Launch attempts, each on a server that is killed one step later than the last one."""
    keys = []
    while True:
        key = AttemptKey(len(keys) + 1, 1)
        if not world.kill_during_launch(key, len(keys), **more):
            assert len(keys) > 8, "a launch has steps"
            return keys
        keys.append(key)


def owners_of(secret):
    return [row["uid"] for row in secret["metadata"].get("ownerReferences", ())]


def uid_of(jobset):
    return jobset["metadata"]["uid"]


def name_of(key):
    return names.name_of(INSTALLATION, key)


def end_all(world, engine, keys, *, stops=True):
    """Stop and forget all attempts; the API and the claim have nothing of them afterwards."""
    for key in keys if stops else ():
        engine.stop(key, ORDER)
    for key in keys:
        wait_until(lambda key=key: engine.forget(key.uid), lambda key=key: engine.observe([key]))
    for kind in ("JobSet", "Secret"):
        wait_until(
            lambda kind=kind: not [row for row in world.list_objects(kind) if names_any(row, keys)],
            lambda kind=kind: world.list_objects(kind),
        )


def names_any(row, keys):
    return row["metadata"]["name"] in {name_of(key) for key in keys}


def test_the_next_server_starts_it_once_and_owns_its_secret(world):
    keys = kill_at_each_step(world)
    engine = world.open()
    for key in keys:
        world.launch(engine, key)
    for plural in ("jobsets", "secrets"):
        counts = world.count_created(plural)
        assert {counts[name_of(key)] for key in keys} == {1}, (plural, counts)
    uids = {row["metadata"]["name"]: uid_of(row) for row in world.list_objects("JobSet")}
    owners = {row["metadata"]["name"]: owners_of(row) for row in world.list_objects("Secret")}
    assert owners == {name: [uid] for name, uid in uids.items()}
    end_all(world, engine, keys)


def test_what_is_cancelled_before_the_next_launch_leaves_nothing(world):
    keys = kill_at_each_step(world)
    engine = world.open()
    for key in keys:
        engine.stop(key, ORDER)
    for key in keys:
        world.launch(engine, key)
        wait_until(
            lambda key=key: engine.observe([key])[0].phase is Phase.ENDED,
            lambda key=key: engine.observe([key]),
        )
    end_all(world, engine, keys)


def test_forgetting_a_job_deletes_the_secret_that_a_killed_server_left(world):
    keys = kill_at_each_step(world)
    killed = Steps()
    engine = world.open(killed)
    killed.is_dead = True
    for key in keys:
        engine.stop(key, ORDER)
        engine.observe([key])
    engine.close()
    end_all(world, world.open(), keys, stops=False)


def test_a_server_that_is_killed_after_a_delete_leaves_no_secret(world):
    keys = kill_at_each_step(world)
    created = {row["metadata"]["name"] for row in world.list_objects("JobSet")}
    for key in [key for key in keys if name_of(key) in created]:
        killed = DiesAfterDelete()
        engine = world.open(killed)
        engine.stop(key, ORDER)
        wait_until(lambda killed=killed: killed.is_dead)
        engine.close()
    end_all(world, world.open(), keys)


@pytest.mark.parametrize("is_removed", [False, True])
def test_the_next_server_finishes_forgetting_a_job(world, monkeypatch, is_removed):
    engine, key = world.open(), AttemptKey(1, 1)
    world.launch(engine, key)
    remove = Spool.remove

    def kill(spool, uid):
        if is_removed:
            remove(spool, uid)
        raise Killed

    with monkeypatch.context() as patches:
        patches.setattr(Spool, "remove", kill)
        with pytest.raises(Killed):
            end_all(world, engine, [key])
    engine.close()
    engine = world.open()
    assert [row.key for row in engine.list_attempts()] == ([] if is_removed else [key])
    end_all(world, engine, [key], stops=False)
    assert not list(Path(engine.traits.jobs).iterdir())


def test_a_jobset_that_kueue_has_admitted_meanwhile_is_not_taken_back(world):
    keys = kill_at_each_step(world, queue="train")

    def admit(jobset):
        jobset["spec"]["suspend"] = False

    for jobset in world.list_objects("JobSet"):
        world.api.store.modify("JobSet", "default", jobset["metadata"]["name"], admit)
    engine = world.open(queue="train")
    for key in keys:
        world.launch(engine, key)
    assert {row["metadata"]["name"] for row in world.list_objects("JobSet")} >= {
        name_of(key) for key in keys
    }
    assert not any("deletionTimestamp" in row["metadata"] for row in world.list_objects("JobSet"))


def refuse(world, kind):
    """Let a webhook of the cluster refuse every new object of a kind."""
    webhook = Webhook("no.test", lambda *_: "none today", (kind,))
    world.api.admission.webhooks.append(webhook)


@pytest.mark.parametrize("kind", ["JobSet", "Secret"])
def test_a_refusal_after_a_kill_does_not_hide_what_runs(world, kind):
    """Quotas and webhooks answer before the API looks for an object of the same name."""
    keys = kill_at_each_step(world)
    created = {row["metadata"]["name"] for row in world.list_objects("JobSet")}
    refuse(world, kind)
    engine = world.open()
    for key in keys:
        if name_of(key) in created:
            world.launch(engine, key)
        else:
            with pytest.raises((LaunchRefused, EngineFault)):
                world.launch(engine, key)
    assert {row["metadata"]["name"] for row in world.list_objects("JobSet")} == created
    assert {row["metadata"]["name"] for row in world.list_objects("Secret")} == created


def test_a_server_error_is_no_refusal(world):
    """The API may have stored the object: another attempt could run beside this one."""
    engine, key = world.open(StoredWithError()), AttemptKey(1, 1)
    with pytest.raises(OSError, match="etcdserver: request timed out"):
        world.launch(engine, key)
    world.launch(engine, key)
    assert world.count_created("jobsets") == {name_of(key): 1}
    end_all(world, engine, [key])


def test_a_jobset_of_the_name_that_is_not_ours_is_left_alone(world):
    engine, key = world.open(), AttemptKey(1, 1)
    foreign = make_jobset(name_of(key))
    uid = uid_of(world.api.store.create(foreign))
    with pytest.raises(EngineFault, match="not of this server"):
        world.launch(engine, key)
    engine.stop(key, ORDER)
    assert [uid_of(row) for row in world.list_objects("JobSet")] == [uid]
    assert not world.list_objects("Secret")
