"""Jobs that hold GPUs, and what is looked at while they do."""

import contextlib
import json
from pathlib import Path

from e2e import support
from e2e.support import ml_job, native, submit, wait_until
from gpu import card as cards

HOLD = (Path(__file__).parent / "programs/hold.py").read_text()
MIB_HELD = 256
#: How soon a card is to be empty; how fast `make test`'s machine is nobody knows.
EMPTY_S_MAX = 5
#: Behind these walls a program cannot open what was not given to its job.
PROMISING = ("users", "sandbox", "landlock")
#: What a driver keeps for itself may change by so much; it is less than any program takes.
MIB_OF_DRIVER = 16
FLAGS = ("--fleet-policy", "best-effort")
#: Jobs ask for T4s, and get what there is.
FLEET = """\
[fleet]
slots = 16
grace_s = 2

[fleet.gpu_alias]
NVIDIA_TESLA_T4 = "any"

"""
#: Behind the best walls that the machine allows; containers of others allow few.
CONFIG = f"{FLEET}[isolation]\nallow_root_jobs = true\n\n"


@contextlib.contextmanager
def serving(card, folder, config=CONFIG):
    """A server of a card's machine."""
    with support.serving(folder, *FLAGS, config=config, program=card.server_program) as server:
        yield server


def job_of(job_id, program, *words, gpus=0):
    """A job that runs a program with these words."""
    document = ml_job(job_id, program, gpus=gpus)
    document["trainingInput"]["masterConfig"]["containerArgs"] += map(str, words)
    return document


def hold(server, job_id, *words, gpus=1, mib=MIB_HELD):
    """Submit a job that takes memory of all GPUs that it sees, and holds it unless told else."""
    return submit(server, job_of(job_id, HOLD, mib, *(words or ("hold",)), gpus=gpus))


def read_report(server, name):
    """What the job says of the devices that it has, once it does."""
    return wait_until(lambda: _parse_report(server, name), lambda: server.log_of(name))


def _parse_report(server, name):
    lines = [line for line in server.log_of(name).splitlines() if line.startswith('{"told')]
    return json.loads(lines[-1]) if lines else None


def running(server, name):
    """The same of a job that runs."""
    server.wait_for(f"/v1/{name}", {"RUNNING"})
    return read_report(server, name)


def waiting(server, name):
    """Why a job waits, once it has been looked at."""
    explanation = native(server, name, "/explain").get("waiting")
    return explanation if explanation and explanation["reason"] != "NOT_LOOKED_AT" else None


def node(server):
    """What ``trainshed nodes`` says of the machine."""
    (machine,) = support.good(server.call("GET", "/trainshed/v1/nodes"))["nodes"]
    return machine


def devices(server):
    """The same of each of its devices."""
    return node(server)["devices"]


def idle_s(server, uuid):
    """How long the job that has a GPU has not used it, as a node shows it; 0 where it has."""
    (device,) = [device for device in devices(server) if uuid in device["uuid"]]
    assert device["reading"]["energyJoules"] >= 0
    return device.get("idleSeconds") or 0.0


def idle_gpu_s(server):
    """For how many GPU-seconds jobs have held GPUs without using them, as the server adds up."""
    usage = support.good(server.call("GET", "/trainshed/v1/usage"))
    return usage["total"]["gpu_seconds"].get("idle", 0.0)


def usage_of_gpu(server, uuid):
    """What a GPU was used for, in the report by GPU."""
    usage = support.good(server.call("GET", "/trainshed/v1/usage?by=gpu"))
    (row,) = [row for row in usage["rows"] if row["gpu"] and uuid in row["gpu"]["uuid"]]
    return row


def gpu_figures(server, name):
    """The names of the figures of each GPU in the usage of a job."""
    figures = {}
    for series in native(server, name, "/usage")["series"]:
        if series["gpu"]:
            figures.setdefault(bare(series["gpu"]), set()).add(series["name"])
    return figures


def check_sight(server, card):
    """A job sees its own devices, also where it forgets which they are, as the mode promises."""
    visible, devices = _probe_devices(server, "one", gpus=1)
    uuids = [bare(uuid) for uuid in card.uuids]
    assert visible == devices
    assert len(set(devices) & set(uuids)) == 1
    assert _probe_devices(server, "none", gpus=0) == ([], [])
    _, blind = _probe_devices(server, "blind", "--blind", gpus=1)
    _, none = _probe_devices(server, "blind_none", "--blind", gpus=0)
    is_kept = node(server)["isolation"] in PROMISING
    assert (len(blind), none) == (1, []) if is_kept else blind == none == uuids


def _probe_devices(server, job_id, *words, gpus):
    """What a job is told of its devices and what it can open; it ends at once."""
    name = hold(server, job_id, "leave", *words, gpus=gpus, mib=16)
    job = server.wait_for(f"/v1/{name}", {"SUCCEEDED", "FAILED"})
    assert job["state"] == "SUCCEEDED", server.log_of(name)
    report = read_report(server, name)
    visible = report["told"].split(",") if report["told"] else []
    return [bare(uuid) for uuid in visible], report["devices"]


def bare(uuid):
    """Without what it is: ``GPU-`` or ``MIG-``."""
    return uuid.partition("-")[2]


def cancel(server, name):
    support.good(server.call("POST", f"/v1/{name}:cancel", {}))
    server.wait_for(f"/v1/{name}", {"CANCELLED"})


def supervisor_of(server, name, attempt=1):
    """The process that has locked the folder of an attempt."""
    lock = server.data_dir / "jobs" / str(native(server, name)["uid"]) / str(attempt) / "lock"
    return json.loads(lock.read_bytes())[0]


def wait_until_empty(card, before):
    """Until no process is on a GPU, and each has the memory that it had before."""

    def is_empty():
        used = card.used_mib()
        return not card.pids() and all(
            used[uuid] <= before[uuid] + MIB_OF_DRIVER for uuid in before
        )

    why = lambda: f"{card.look()}, before: {before}"  # noqa: E731 - asked where it is not so
    wait_until(is_empty, why, timeout_s=EMPTY_S_MAX if cards.IS_REAL else 120)
