"""What goes wrong with a GPU is told as such, and a broken one is given to nobody."""

from e2e.support import good, wait_until
from gpu import jobs

#: More than any card has.
MIB_TOO_MANY = 1 << 30
#: Hardware and power, which NVML tells by a bit each.
THROTTLED = 0x08 | 0x80


def devices(server):
    """What ``trainshed nodes`` says of each device."""
    (node,) = good(server.call("GET", "/trainshed/v1/nodes"))["nodes"]
    return node["devices"]


def test_a_program_that_wants_more_memory_than_there_is_fails_of_that(gpu_server):
    name = jobs.hold(gpu_server, "too_large", mib=MIB_TOO_MANY)
    found = gpu_server.wait_for(f"/v1/{name}", {"FAILED"})
    assert "memory of the GPU" in found["errorMessage"], found


def test_a_gpu_with_an_error_of_its_own_is_given_to_nobody(breakable_card, tmp_path):
    with jobs.serving(breakable_card, tmp_path / "data") as server:
        (device,) = devices(server)
        assert device["state"] == "FREE"
        breakable_card.set(0, "ecc", 3)
        breakable_card.set(0, "throttled", THROTTLED)
        reading = wait_until(lambda: _throttled(server))
        assert reading["eccErrors"] == 3
        assert len(reading["throttled"]) == 2
        breakable_card.set(0, "xid", 48)
        faulty = wait_until(lambda: _faulty(server))
        assert "Xid 48" in faulty["problem"]
        waits = jobs.hold(server, "waits")
        assert server.call("GET", f"/v1/{waits}")[1]["state"] in {"QUEUED", "PREPARING"}
        jobs.cancel(server, waits)


def test_a_gpu_that_falls_off_is_given_to_nobody(breakable_card, tmp_path):
    with jobs.serving(breakable_card, tmp_path / "data") as server:
        (device,) = devices(server)
        breakable_card.set(0, "gone", "")
        faulty = wait_until(lambda: _faulty(server))
        assert faulty["uuid"] == device["uuid"]
        assert faulty["problem"]


def _throttled(server):
    (device,) = devices(server)
    reading = device.get("reading", {})
    return reading if reading.get("throttled") else None


def _faulty(server):
    (device,) = devices(server)
    return device if device["state"] == "FAULTY" else None
