"""Gangs of which one pod cannot start: no program ran, the reason is said, the places are free."""

import struct

import pytest

from e2e import fleet
from e2e.support import IMAGE, good, native, submit, wait_until
from k8s.emulator.pods.images import ContainerImage
from k8s.serving import PYTHON_IMAGE, SMALL, serving_cluster, small_job
from k8s.started_programs import bucket_of, counted_start, read_starts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ABSENT, FOREIGN = "registry.test/p/absent:1", "registry.test/p/foreign:1"
FOREIGN_MACHINE = 0xF3  # RISC-V


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    settings = {"image_timeout_s": 3.0, "start_timeout_s": 8.0}
    folder = tmp_path_factory.mktemp("gangs") / "data"
    with serving_cluster(live_cluster, folder, **settings) as server:
        fleet.make_bucket(server)
        yield server


def gang(name, **changes):
    """A primary and three workers, the workers with another image or machine."""
    job = small_job(name, counted_start(), workers=3, disableRetries=True)
    pool = job["jobSpec"]["workerPoolSpecs"][1]
    pool["containerSpec"] = {
        **pool["containerSpec"],
        "imageUri": changes.get("image", IMAGE),
    }
    pool["machineSpec"] = {"machineType": changes.get("machine", SMALL)}
    return job


def reasons_until_end(server, name):
    """The reasons for which a job waited, and the job at its end."""
    reasons = []

    def is_over():
        job = native(server, name)
        why = fleet.reason(job)
        if why and why not in reasons:
            reasons.append(why)
        return job if job["state"] in fleet.FINAL else None

    return reasons, wait_until(is_over, lambda: fleet.story_text(server, name))


def check_nothing_ran(cluster, server, job):
    """No program of the job has left its file, and JobSet, pods and Secret are gone."""
    assert not [name for name, _ in read_starts(bucket_of(server)) if job["uid"] in name]
    check_nothing_is_left(cluster)


def check_nothing_is_left(cluster):
    for kind in ("JobSet", "Pod", "Secret"):
        wait_until(
            lambda kind=kind: not cluster.store.list(kind, "default")[0],
            lambda kind=kind: cluster.store.list(kind, "default")[0],
        )


def test_one_image_that_does_not_exist_fails_the_gang_in_words(server, live_cluster):
    name = submit(server, gang("absent", image=ABSENT))
    reasons, job = reasons_until_end(server, name)
    assert job["state"] == "FAILED", fleet.story_text(server, name)
    images = [why for why in reasons if why["reason"] == "IMAGE"]
    assert images, reasons
    assert ABSENT in images[0]["message"]
    error = good(server.call("GET", f"/v1/{name}"))["error"]["message"]
    assert ABSENT in error
    assert "not found" in error
    check_nothing_ran(live_cluster, server, job)


@pytest.mark.full
def test_an_image_without_this_architecture_fails_the_gang_in_words(server, live_cluster):
    """The registry has the image for other architectures alone."""
    live_cluster.images.refuse(FOREIGN, "no match for platform in manifest: not found")
    name = submit(server, gang("no-platform", image=FOREIGN))
    reasons, job = reasons_until_end(server, name)
    assert job["state"] == "FAILED", fleet.story_text(server, name)
    assert "IMAGE" in {why["reason"] for why in reasons}, reasons
    error = good(server.call("GET", f"/v1/{name}"))["error"]["message"]
    assert "no match for platform in manifest" in error
    check_nothing_ran(live_cluster, server, job)


@pytest.mark.full
def test_programs_of_another_architecture_fail_the_gang_in_words(
    server, live_cluster, tmp_path_factory
):
    """The node has pulled the image all the same: the first exec shows that nothing can run.

    The launcher has told all wardens to start by then, so a program of a peer may have begun.
    """
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "python").write_bytes(make_foreign_program())
    (folder / "python").chmod(0o755)
    image = ContainerImage(
        PYTHON_IMAGE.folder, env={"PATH": "/foreign:/usr/bin:/bin"}, binds=((folder, "/foreign"),)
    )
    live_cluster.images.add(FOREIGN, image)
    name = submit(server, gang("foreign", image=FOREIGN))
    job = fleet.ended(server, name)
    assert job["state"] == "FAILED", fleet.story_text(server, name)
    error = good(server.call("GET", f"/v1/{name}"))["error"]["message"]
    assert "Exec format error" in error, error
    assert "workerpool1-" in error
    tasks = {task for attempt, task in read_starts(bucket_of(server)) if job["uid"] in attempt}
    assert tasks <= {"workerpool0-0"}
    check_nothing_is_left(live_cluster)


def make_foreign_program():
    """The header of an ELF program for another machine."""
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    return identity + struct.pack("<HHI", 2, FOREIGN_MACHINE, 1) + bytes(40)


@pytest.mark.full
def test_a_pod_that_never_gets_a_node_gives_the_places_of_the_others_back(server, live_cluster):
    nodes = [f"node-{number}" for number in range(2, 5)]
    for node in nodes:
        live_cluster.plane.cordon(node)
    try:
        job = gang("no-node", machine="n1-standard-8")
        name = submit(server, job)
        wait_until(lambda: pods_with_nodes(live_cluster), lambda: fleet.story_text(server, name))
        reasons, job = reasons_until_end(server, name)
        assert job["state"] == "FAILED", fleet.story_text(server, name)
        waits = [why for why in reasons if why["reason"] in {"CAPACITY", "DRAINED"}]
        assert waits, reasons
        assert "2 of 3 workers" in waits[-1]["message"], waits
        error = good(server.call("GET", f"/v1/{name}"))["error"]["message"]
        assert "did not start within 8 s" in error, error
        check_nothing_ran(live_cluster, server, job)
        other = submit(server, small_job("other", "print('trained')", machine="n1-standard-16"))
        assert fleet.ended(server, other)["state"] == "SUCCEEDED"
    finally:
        for node in nodes:
            live_cluster.plane.cordon(node, is_cordoned=False)


def pods_with_nodes(cluster):
    pods, _ = cluster.store.list("Pod", "default")
    return [pod for pod in pods if pod["spec"].get("nodeName")]
