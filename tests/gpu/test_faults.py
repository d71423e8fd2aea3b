"""A GPU that is broken is told, and given to nobody."""

import pytest

from e2e.support import native, wait_until
from gpu import card as cards
from gpu import jobs
from gpu.jobs import devices

#: Hardware and power, which NVML tells by a bit each.
THROTTLED = 0x08 | 0x80


@pytest.fixture(scope="module")
def breakable(tmp_path_factory):
    """A card that no machine has: what becomes of it is written to its files."""
    with cards.fake(tmp_path_factory.mktemp("breakable")) as card:
        card.pids()  # what this starts is for all of them
        yield card


@pytest.fixture(scope="module")
def server(breakable, tmp_path_factory):
    with jobs.serving(breakable, tmp_path_factory.mktemp("broken") / "data") as server:
        yield server


def once(server, gpu, is_so):
    """What is said of a GPU once something is so."""

    def look():
        device = devices(server)[gpu]
        return device if is_so(device) else None

    return wait_until(look, lambda: devices(server))


def why_queued(server, job_id):
    """Why a new job waits in the queue; None if it was placed before the fault was known."""
    name = jobs.hold(server, job_id)
    wait_until(lambda: jobs.waiting(server, name) or native(server, name)["state"] != "QUEUED")
    why = jobs.waiting(server, name)
    jobs.cancel(server, name)
    return why


def is_faulty(device):
    return device["state"] == "FAULTY"


def test_errors_and_lower_clocks_are_shown(breakable, server):
    breakable.set(0, "ecc", 3)
    breakable.set(0, "throttled", THROTTLED)
    faulty = once(server, 0, lambda device: device.get("reading", {}).get("throttled"))
    assert faulty["state"] == "FREE"
    assert faulty["reading"]["eccErrors"] == 3
    assert len(faulty["reading"]["throttled"]) == 2


@pytest.mark.full
def test_while_the_driver_hangs_figures_are_missing_and_jobs_go_on(breakable, server):
    breakable.set(1, "hangs", "")
    once(server, 0, lambda device: "reading" not in device)  # one thread reads all of them
    name = jobs.hold(server, "meanwhile", "leave", mib=16)
    server.wait_for(f"/v1/{name}", {"SUCCEEDED"})
    (breakable.state / "1" / "hangs").unlink()
    assert once(server, 0, lambda device: "reading" in device)["reading"]["use"] == 0
    after = jobs.hold(server, "after_it", "leave", mib=16)
    server.wait_for(f"/v1/{after}", {"SUCCEEDED"})
    assert len(jobs.gpu_figures(server, after)) == 1, "its GPU is measured again"


def test_one_with_an_xid_that_only_a_reset_ends_is_given_to_nobody(breakable, server):
    breakable.set(0, "xid", 48)
    assert "Xid 48" in once(server, 0, is_faulty)["problem"]
    other = jobs.hold(server, "other")
    (uuid,) = jobs.running(server, other)["devices"]
    assert uuid == jobs.bare(breakable.uuids[1])
    why = next(filter(None, (why_queued(server, f"second_{number}") for number in range(60))))
    assert why["reason"] == "CAPACITY", why
    assert "GPU 0 of" in why["message"], why
    jobs.cancel(server, other)


def test_one_that_falls_off_is_given_to_nobody(breakable, server):
    before = devices(server)[1]
    breakable.set(1, "gone", "")
    lost = once(server, 1, is_faulty)
    assert lost["uuid"] == before["uuid"]
    assert lost["problem"]
