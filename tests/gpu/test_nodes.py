"""`trainshed nodes` shows GPUs as nvidia-smi does; a broken one is given to nobody, and told."""

from e2e.support import good, wait_until
from gpu import jobs
from gpu.card import MIB

#: More than any card has.
MIB_TOO_MANY = 1 << 30
SMI = "--query-gpu=index,uuid,name,pci.bus_id,memory.total"
#: Hardware and power, which NVML tells by a bit each.
THROTTLED = 0x08 | 0x80


def devices(server):
    """What ``trainshed nodes`` says of each device."""
    (node,) = good(server.call("GET", "/trainshed/v1/nodes"))["nodes"]
    return node["devices"]


def test_each_device_is_shown_with_what_nvidia_smi_shows(card, gpu_server):
    rows = card.output(card.smi, SMI, "--format=csv,noheader,nounits").splitlines()
    found = devices(gpu_server)
    shown = [
        (str(each["index"]), each["uuid"], each["name"], each["pciBusId"].lower()) for each in found
    ]
    told = [row.split(", ") for row in rows]
    assert shown == [(*row[:3], row[3].lower()) for row in told]
    for each, row in zip(found, told, strict=True):
        assert abs(each["memoryBytes"] / MIB - int(row[4])) < 1
        assert each["type"] in gpu_types(gpu_server)


def gpu_types(server):
    """The catalog's types that the node offers."""
    (node,) = good(server.call("GET", "/trainshed/v1/nodes"))["nodes"]
    return node["gpus"]


def test_a_program_that_wants_more_memory_than_there_is_fails_of_that(gpu_server):
    name = jobs.hold(gpu_server, "too_large", mib=MIB_TOO_MANY)
    found = gpu_server.wait_for(f"/v1/{name}", {"FAILED"})
    assert "memory was full" in found["errorMessage"], found["errorMessage"]


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
