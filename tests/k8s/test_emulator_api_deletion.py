"""Deletion: preconditions, grace, finalizers, dependents and namespaces."""

import pytest

from k8s.emulator.api import EmulatedApi
from k8s.emulator.statuses import ApiError, Conflict, NotFound
from k8s.http_calls import Caller, make_job, make_jobset, make_pod, own

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api():
    """With a collector that works when a test says so."""
    emulated = EmulatedApi()
    emulated.server.start()
    yield emulated
    emulated.stop()


@pytest.fixture
def store(api):
    return api.store


def exists(store, kind, name, namespace="default"):
    try:
        store.get(kind, namespace, name)
    except NotFound:
        return False
    return True


def create_family(store):
    """A JobSet, its Job, and the Job's pod, which runs on a node."""
    jobset = store.create(make_jobset())
    job = store.create(own(make_job(), jobset))
    pod = store.create(own(make_pod(), job))
    pod["spec"]["nodeName"] = "n1"
    store.update(pod, subresource="binding")
    return jobset


def test_another_uid_is_refused(store):
    store.create(make_pod())
    with pytest.raises(Conflict) as refusal:
        store.delete("Pod", "default", "p", uid="0")
    assert "the UID in the precondition (0) does not match" in refusal.value.message
    assert exists(store, "Pod", "p")


def test_a_pod_of_a_node_stays_for_its_grace_and_goes_with_grace_zero(store):
    pod = store.create(make_pod(terminationGracePeriodSeconds=7))
    pod["spec"]["nodeName"] = "n1"
    store.update(pod, subresource="binding")
    marked = store.delete("Pod", "default", "p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert marked["metadata"]["generation"] == 2
    again = store.delete("Pod", "default", "p", grace_s=30)
    assert again["metadata"] == marked["metadata"]
    shorter = store.delete("Pod", "default", "p", grace_s=2)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2
    store.delete("Pod", "default", "p", grace_s=0)
    assert not exists(store, "Pod", "p")


def test_a_pod_without_a_node_goes_at_once(store):
    store.create(make_pod())
    store.delete("Pod", "default", "p")
    assert not exists(store, "Pod", "p")


def test_a_finalizer_holds_an_object_until_it_is_removed(store):
    pod = make_pod()
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    store.create(pod)
    marked = store.delete("Pod", "default", "p")
    assert "deletionTimestamp" in marked["metadata"]
    marked["metadata"]["finalizers"] = []
    store.update(marked)
    assert not exists(store, "Pod", "p")


def test_a_foreground_deletion_waits_for_the_pods(api, store):
    create_family(store)
    marked = store.delete("JobSet", "default", "js", propagation="Foreground")
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.collector.drain()
    job, pod = store.get("Job", "default", "j"), store.get("Pod", "default", "p")
    assert job["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in pod["metadata"]
    with pytest.raises(ApiError) as refusal:
        store.create(make_jobset())
    assert refusal.value.message.startswith("object is being deleted: ")
    store.delete("Pod", "default", "p", grace_s=0)
    api.collector.drain()
    assert not any(exists(store, k, n) for k, n in (("Job", "j"), ("JobSet", "js")))


def test_a_background_deletion_frees_the_name_at_once(api, store):
    create_family(store)
    store.delete("JobSet", "default", "js", propagation="Background")
    assert not exists(store, "JobSet", "js")
    store.create(make_jobset())
    api.collector.drain()
    assert not exists(store, "Job", "j")
    assert "deletionTimestamp" in store.get("Pod", "default", "p")["metadata"]
    assert exists(store, "JobSet", "js")


def test_an_orphaning_deletion_leaves_the_dependents(api, store):
    create_family(store)
    store.delete("JobSet", "default", "js", propagation="Orphan")
    api.collector.drain()
    assert not exists(store, "JobSet", "js")
    assert "ownerReferences" not in store.get("Job", "default", "j")["metadata"]


def test_a_job_deleted_without_options_leaves_its_pods(api, store):
    """As batch/v1 does; ``kubectl`` and every client that means it says otherwise."""
    create_family(store)
    assert Caller(api).call("DELETE", f"{JOBS}/j").status == 200
    api.collector.drain()
    assert not exists(store, "Job", "j")
    assert "deletionTimestamp" not in store.get("Pod", "default", "p")["metadata"]


def test_an_object_of_an_owner_that_is_gone_is_collected(api, store):
    jobset = store.create(make_jobset())
    store.delete("JobSet", "default", "js")
    store.create(own(make_job(), jobset))
    api.collector.drain()
    assert not exists(store, "Job", "j")


def test_a_namespace_goes_when_its_objects_are_gone(api, store):
    api.create_namespace("n")
    store.create(make_pod(namespace="n"))
    reply = Caller(api).call("DELETE", "/api/v1/namespaces/n")
    assert reply.body["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as refusal:
        store.create(make_pod("late", namespace="n"))
    assert "because it is being terminated" in refusal.value.message
    api.collector.drain()
    assert not exists(store, "Namespace", "n", None)


def test_options_of_a_deletion_may_be_in_the_body_or_in_the_query(api, store):
    for body, query in (
        ({"propagationPolicy": "Foreground"}, {}),
        (None, {"propagationPolicy": "Foreground"}),
    ):
        create_family(store)
        reply = Caller(api).call("DELETE", f"{JOBS}/j", body, **query)
        assert reply.body["metadata"]["finalizers"] == ["foregroundDeletion"]
        store.delete("Pod", "default", "p", grace_s=0)
        api.collector.drain()
        store.delete("JobSet", "default", "js", propagation="Background")
        api.collector.drain()


def test_an_eviction_marks_the_pod_and_deletes_it(api, store):
    create_family(store)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    reply = Caller(api).call("POST", f"{PODS}/p/eviction", body)
    assert (reply.status, reply.body["status"]) == (201, "Success")
    pod = store.get("Pod", "default", "p")
    assert "deletionTimestamp" in pod["metadata"]
    (condition,) = pod["status"]["conditions"]
    assert condition["type"] == "DisruptionTarget"
    assert condition["reason"] == "EvictionByEvictionAPI"


def test_a_collection_is_deleted_by_its_selector(api, store):
    for name in ("a", "b"):
        pod = make_pod(name)
        pod["metadata"]["labels"] = {"name": name}
        store.create(pod)
    assert Caller(api).call("DELETE", PODS, labelSelector="name=a").status == 200
    assert [exists(store, "Pod", name) for name in ("a", "b")] == [False, True]
