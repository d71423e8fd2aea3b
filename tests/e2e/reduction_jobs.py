"""Jobs with reducers: trainers of a few lines, their documents, and what is asked of their log."""

import re

import psutil

from e2e.support import log_lines, processes_of

IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
TRAINER = "lean.test/p/img:1"
CHOICE = [
    {"name": "TRAINSHED_TORCH_BACKEND", "value": "reduction"},
    {"name": "TRAINSHED_REDUCTION_ROUTE", "value": "always"},
]
GPU = {"machineType": "n1-standard-16", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}

#: Sums through the reducers with nothing but the library's client.
SUMS = """
import os, sys, threading
import numpy as np
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.places import reducers_of, token_of
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
client = Client.connect(
    reducers_of(os.environ), rank=rank, world=world, token=token_of(os.environ),
    epoch=int(os.environ.get("TRAINSHED_ATTEMPT", "1")),
)
def summed(values):
    over, faults = threading.Event(), []
    done = lambda fault: (faults.append(fault), over.set())
    client.allreduce(memoryview(values).cast("B"), Dtype.FLOAT32, average=False, done=done)
    over.wait()
    if faults[0]:
        sys.exit(f"no sum: {faults[0]}")
    return values
print("SUM", *set(summed(np.full(300_000, rank + 1, dtype=np.float32)).tolist()), flush=True)
"""
LEAVES = f"{SUMS}client.close()\n"
GOES_ON = f"{SUMS}while True:\n    summed(np.zeros(300_000, dtype=np.float32))\n"

#: DockerVariables of maintenance, it sums on until all ranks know, and some steps more.
SAVES = f"""{SUMS}
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while os.environ["TRAINSHED_ATTEMPT"] == "1":
    told = os.path.exists(os.environ["TRAINSHED_NOTICE_FILE"])
    if summed(np.full(1024, float(told), dtype=np.float32))[0]:
        for _ in range(50):
            summed(np.zeros(300_000, dtype=np.float32))
        print("SAVED", flush=True)
        break
client.close()
"""

#: The same for those who train with torch: nothing of ours is named but in the environment, where
#: the primary also finds what its group says that it has done.
TORCH = """
import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
values = torch.full((300_000,), float(rank + 1))
dist.all_reduce(values)
print("SUM", *set(values.tolist()), flush=True)
dist.destroy_process_group()
if rank == 0:
    with open(os.environ["TRAINSHED_REDUCTION_REPORT"]) as file:
        report = json.load(file)
    print("REDUCERS", report["reducers"], "ROUNDS", report["rounds"] > 0, flush=True)
"""
DONE = "REDUCERS 2 ROUNDS True"


def pools(code, *, reducers=2, env=()):
    container = {"imageUri": TRAINER, "command": ["python", "-c"], "args": [code], "env": [*env]}
    trains = {"machineSpec": GPU, "replicaCount": "1", "containerSpec": container}
    return [
        trains,
        trains,
        {
            "machineSpec": {"machineType": "n1-highcpu-16"},
            "replicaCount": str(reducers),
            "containerSpec": {"imageUri": IMAGE},
        },
    ]


def job(name, code, **how):
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": pools(code, **how)}}


def lines_by_task(server, name):
    """Every line of a job by the replica that wrote it."""
    lines = {}
    for line in log_lines(server, name):
        lines.setdefault(line["task"], []).append(line["message"])
    return lines


def lines_of(text):
    lines = {}
    for line in text.splitlines():
        task, mark, words = line.partition(" │ ")
        if mark:
            lines.setdefault(task.strip(), []).append(words)
    return lines


def reducers_of(server):
    processes = processes_of(server)
    return [psutil.Process(pid) for pid, words in processes if "trainshed.reduction" in words]


def check_the_sum(words):
    for task in ("workerpool0-0", "workerpool1-0"):
        assert "SUM 3.0" in words[task], words
    for index in (0, 1):
        assert words[f"workerpool2-{index}"][0].startswith(f"reducer {index}: listening on ")
        assert words[f"workerpool2-{index}"][-1] == f"reducer {index}: ends: received SIGTERM"


def check_the_blame(message, log, task, culprit):
    """The killed replica is named; by those who lost it where their ends were seen first."""
    assert re.search(rf"{task} .*SIGKILL", message) or f"no sum: {culprit}" in log, log
