"""A GPU belongs to one job at a time; the next one waits, and says for whom (R10)."""

from e2e.support import native, wait_until
from gpu import jobs


def waiting(server, name):
    """Why a job waits, once it has been looked at."""
    found = native(server, name, "/explain").get("waiting")
    return found if found and found["reason"] != "NOT_LOOKED_AT" else None


def test_the_second_job_waits_and_says_so_until_the_first_is_gone(card, gpu_server):
    before, all_of_them = card.used_mib(), len(card.uuids)
    first = jobs.hold(gpu_server, "first", gpus=all_of_them)
    devices = jobs.running(gpu_server, first)["devices"]
    assert sorted(devices) == sorted(uuid.removeprefix("GPU-") for uuid in card.uuids)
    held = card.used_mib()
    assert all(held[uuid] >= before[uuid] + jobs.MIB_HELD for uuid in held)
    second = jobs.hold(gpu_server, "second")
    why = wait_until(lambda: waiting(gpu_server, second))
    assert why["reason"] == "CAPACITY", why
    jobs.cancel(gpu_server, first)
    assert len(jobs.running(gpu_server, second)["devices"]) == 1
    jobs.cancel(gpu_server, second)
    jobs.wait_until_empty(card, before)
