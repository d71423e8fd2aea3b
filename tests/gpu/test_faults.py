"""A GPU that is broken is told, and given to nobody."""

import pytest

from e2e.support import wait_until
from gpu import card as cards
from gpu import jobs
from gpu.jobs import devices

#: Hardware and power, which NVML tells by a bit each.
THROTTLED = 0x08 | 0x80


@pytest.fixture(scope="module")
def breakable(tmp_path_factory):
    """A card that no machine has: what becomes of it is written to its files."""
    with cards.fake(tmp_path_factory.mktemp("breakable")) as found:
        found.look()  # what this starts is for all of them
        yield found


@pytest.fixture(scope="module")
def server(breakable, tmp_path_factory):
    with jobs.serving(breakable, tmp_path_factory.mktemp("broken") / "data") as found:
        yield found


def once(server, gpu, is_so):
    """What is said of a GPU once something is so."""

    def look():
        found = devices(server)[gpu]
        return found if is_so(found) else None

    return wait_until(look, lambda: devices(server))


def is_faulty(device):
    return device["state"] == "FAULTY"


def test_errors_and_lower_clocks_are_shown(breakable, server):
    breakable.set(0, "ecc", 3)
    breakable.set(0, "throttled", THROTTLED)
    found = once(server, 0, lambda device: device.get("reading", {}).get("throttled"))
    assert found["state"] == "FREE"
    assert found["reading"]["eccErrors"] == 3
    assert len(found["reading"]["throttled"]) == 2


def test_one_with_an_xid_that_only_a_reset_ends_is_given_to_nobody(breakable, server):
    before = jobs.node(server)["seen"]
    breakable.set(0, "xid", 48)
    assert "Xid 48" in once(server, 0, is_faulty)["problem"]
    wait_until(lambda: jobs.node(server)["seen"] != before)  # whoever places jobs knows it too
    other = jobs.hold(server, "other")
    (uuid,) = jobs.running(server, other)["devices"]
    assert uuid == breakable.uuids[1].partition("-")[2]
    second = jobs.hold(server, "second")
    why = wait_until(lambda: jobs.waiting(server, second))
    assert why["reason"] == "CAPACITY", why
    assert "GPU 0 of" in why["message"], why
    jobs.cancel(server, second)
    jobs.cancel(server, other)


def test_one_that_falls_off_is_given_to_nobody(breakable, server):
    before = devices(server)[1]
    breakable.set(1, "gone", "")
    found = once(server, 1, is_faulty)
    assert found["uuid"] == before["uuid"]
    assert found["problem"]
