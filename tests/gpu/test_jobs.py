"""Jobs and GPUs: shown as they are, held by one at a time, empty and free afterwards."""

import os
import signal

import leftovers
from e2e.support import native, wait_until
from gpu import jobs
from gpu.card import MIB
from gpu.jobs import devices

SMI = "--query-gpu=index,uuid,name,pci.bus_id,memory.total"
#: More than any card has.
MIB_TOO_MANY = 1 << 20


def test_a_job_sees_its_own_devices_also_where_it_forgets_which(card, gpu_server):
    jobs.check_sight(gpu_server, card)


def test_the_second_job_waits_and_says_so_until_the_first_is_gone(card, gpu_server):
    before, all_of_them = card.used_mib(), len(card.uuids)
    first = jobs.hold(gpu_server, "first", gpus=all_of_them)
    devices = jobs.running(gpu_server, first)["devices"]
    assert sorted(devices) == sorted(jobs.bare(uuid) for uuid in card.uuids)
    held = card.used_mib()
    assert all(held[uuid] >= before[uuid] + jobs.MIB_HELD for uuid in held)
    second = jobs.hold(gpu_server, "second")
    why = wait_until(lambda: jobs.waiting(gpu_server, second))
    assert why["reason"] == "CAPACITY", why
    jobs.cancel(gpu_server, first)
    assert len(jobs.running(gpu_server, second)["devices"]) == 1
    jobs.cancel(gpu_server, second)
    jobs.wait_until_empty(card, before)


def killed(pid):
    os.kill(pid, signal.SIGKILL)


def free(card, server, job_id):
    """Another job gets every GPU."""
    name = jobs.hold(server, job_id, "leave", gpus=len(card.uuids), mib=16)
    server.wait_for(f"/v1/{name}", {"SUCCEEDED"})
    assert len(jobs.read_report(server, name)["devices"]) == len(card.uuids)


def test_after_a_cancel_the_gpu_is_free_and_its_figures_are_those_of_the_job(card, gpu_server):
    before, idle_before_s = card.used_mib(), jobs.idle_gpu_s(gpu_server)
    name = jobs.hold(gpu_server, "cancelled")
    (held,) = jobs.running(gpu_server, name)["devices"]
    wait_until(lambda: jobs.idle_s(gpu_server, held) > 0, lambda: "it computes nothing")
    # a supervisor gets readings every ten seconds; the first may be of the job before
    wait_until(lambda: jobs.gpu_figures(gpu_server, name), lambda: "no figures of its GPU")
    jobs.cancel(gpu_server, name)
    jobs.wait_until_empty(card, before)
    assert jobs.gpu_figures(gpu_server, name) == {
        held: {"gpu_use", "gpu_memory", "gpu_power", "gpu_temperature"}
    }
    wait_until(lambda: jobs.idle_gpu_s(gpu_server) > idle_before_s, lambda: "no idle time")
    row = jobs.usage_of_gpu(gpu_server, held)
    (device,) = [gpu for gpu in jobs.devices(gpu_server) if held in gpu["uuid"]]
    assert (row["node"], row["gpu"]["index"]) == (jobs.node(gpu_server)["name"], device["index"])
    assert row["gpu"]["type"] == device["type"]
    assert row["gpu_seconds"]["idle"] > 0
    assert row["holders"][0]["idle_s"] > 0
    free(card, gpu_server, "after_cancelled")


def test_after_the_trainer_was_killed(card, gpu_server):
    before = card.used_mib()
    name = jobs.hold(gpu_server, "killed")
    pid = jobs.running(gpu_server, name)["pid"]
    assert card.pids() == {pid}
    killed(pid)
    gpu_server.wait_for(f"/v1/{name}", {"FAILED"})
    jobs.wait_until_empty(card, before)
    free(card, gpu_server, "after_killed")


def test_after_the_supervisor_was_killed_the_next_attempt_has_the_gpu(card, gpu_server):
    before = card.used_mib()
    name = jobs.hold(gpu_server, "unattended")
    jobs.running(gpu_server, name)
    pids = card.pids()
    killed(jobs.supervisor_of(gpu_server, name))
    wait_until(lambda: native(gpu_server, name)["attempt"] == 2)
    wait_until(lambda: card.pids() and not card.pids() & pids)
    jobs.cancel(gpu_server, name)
    jobs.wait_until_empty(card, before)
    free(card, gpu_server, "after_unattended")


def test_a_killed_servers_jobs_keep_their_gpus_until_they_end(card, gpu_server):
    before = card.used_mib()
    name = jobs.hold(gpu_server, "goes_on")
    jobs.running(gpu_server, name)
    pids = card.pids()
    with leftovers.outliving_the_test():
        gpu_server.kill()
        gpu_server.start()
    assert card.pids() == pids
    assert native(gpu_server, name)["attempt"] == 1
    jobs.cancel(gpu_server, name)
    jobs.wait_until_empty(card, before)
    free(card, gpu_server, "after_goes_on")


def test_each_device_is_shown_with_what_nvidia_smi_shows(card, gpu_server):
    rows = card.output(card.smi, SMI, "--format=csv,noheader,nounits").splitlines()
    listed_devices = devices(gpu_server)
    summaries = [
        (str(device["index"]), device["uuid"], device["name"], device["pciBusId"].lower())
        for device in listed_devices
    ]
    expected = [row.split(", ") for row in rows]
    assert summaries == [(*row[:3], row[3].lower()) for row in expected]
    for device, row in zip(listed_devices, expected, strict=True):
        assert abs(device["memoryBytes"] / MIB - int(row[4])) < 1
        assert device["type"] in jobs.node(gpu_server)["gpus"]


def test_a_program_that_wants_more_memory_than_there_is_fails_of_that(gpu_server):
    name = jobs.hold(gpu_server, "too_large", mib=MIB_TOO_MANY)
    job = gpu_server.wait_for(f"/v1/{name}", {"FAILED"})
    assert "memory was full" in job["errorMessage"], job["errorMessage"]
