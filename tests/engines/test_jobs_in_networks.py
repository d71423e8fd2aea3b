"""Jobs and replicas that choose their ports themselves do not meet in networks of their own."""

import importlib.util
import json
from pathlib import Path

import pytest

from engines.attempts import KEY, OTHER, ended, read_answer, texts
from engines.networks import MODES, launch_in_network
from engines.support import wait_until
from trainshed.model.launch_plan import Owner
from trainshed.model.network import NetworkLayout

#: Listens on the port that Ray has, and greets every other replica at that port by its name.
LISTENS = """
import json, socket, sys, threading, time
own, count = {own}, 3
server = socket.create_server(("", 6379))
def greet():
    for _ in range(count):
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"%d" % own)
thread = threading.Thread(target=greet)
thread.start()
def ask(index):
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(("replica-%d" % index, 6379), timeout=60) as peer:
                return int(peer.recv(9))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
found = [ask(index) for index in range(count)]
thread.join()
host = socket.gethostbyname(socket.gethostname())
print(json.dumps([found, host == socket.gethostbyname("replica-%d" % own)]))
"""

#: Two replicas meet at one port of the first, when both jobs have one that listens there.
MEETING = """
import json, os, socket, time
own = {word!r} + " " + os.environ["TRAINSHED_TASK"]
def listen():
    with socket.create_server(("", 29500)) as server:
        print("listens", flush=True)
        while not os.path.exists({go!r}):
            time.sleep(0.02)
        return server.accept()[0]
def reach():
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("replica-0", 29500), timeout=60)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
with listen() if "master" in own else reach() as peer:
    peer.sendall(own.encode())
    peer.shutdown(socket.SHUT_WR)
    print(json.dumps(sorted([own, peer.makefile().read()])))
"""
JOBS = {"alpha": KEY, "beta": OTHER}

#: One port and one rendezvous for all jobs, as programs have them that were written for one job.
TORCHRUN = """
import os, sys
os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
    "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "training",
    "--rdzv-endpoint", "{host}:29500", "--no-python", sys.executable, "-c", {script!r}, {word!r}])
"""
MEMBERS = """
import json, os, sys
import torch.distributed as dist
dist.init_process_group("gloo")
members = [None] * dist.get_world_size()
dist.all_gather_object(members, sys.argv[1] + " " + os.environ["TRAINSHED_TASK"])
dist.destroy_process_group()
print(json.dumps(sorted(members)), flush=True)
"""


@pytest.mark.parametrize("mode", MODES)
def test_replicas_that_choose_one_port_each_have_it_for_themselves(mode, root, mark):
    codes = [LISTENS.format(own=index) for index in range(3)]
    engine = launch_in_network(root, mark, *codes, mode=mode, layout=NetworkLayout.REPLICA)
    assert ended(engine).outcome.exit_code == 0, texts(root)
    for name in ("master-replica-0", "worker-replica-0", "worker-replica-1"):
        assert json.loads(read_answer(root, name)) == [[0, 1, 2], True]


@pytest.mark.parametrize("layout", [NetworkLayout.REPLICA, NetworkLayout.JOB])
def test_two_jobs_of_one_port_and_one_meeting_place_are_two_worlds(layout, root, mark, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    tmp_path.chmod(0o755)
    go = str(shown / "go")
    codes = {word: MEETING.format(word=word, go=go) for word in JOBS}
    engines = launch_both(root, mark, codes, layout=layout, reads=(str(shown),))
    for word, key in JOBS.items():
        wait_until(
            lambda key=key: "listens" in texts(root, key=key),
            lambda key=key, word=word: f"{word} listens: {texts(root, key=key)}",
        )
    Path(go).touch()
    check_worlds(root, engines)


@pytest.mark.full
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="make test installs PyTorch")
@pytest.mark.parametrize("layout", [NetworkLayout.REPLICA, NetworkLayout.JOB])
def test_two_torchruns_of_one_port_and_one_rendezvous_are_two_worlds(layout, root, mark):
    codes = {word: TORCHRUN.format(host="replica-0", script=MEMBERS, word=word) for word in JOBS}
    check_worlds(root, launch_both(root, mark, codes, layout=layout))


def launch_both(root, mark, codes, **more):
    """Start two replicas of each job, which is of a project of its own; the engines."""
    return {
        word: launch_in_network(
            root, mark, codes[word], codes[word], key=key,
            owner=Owner(project=word, number=number), **more,
        )
        for number, (word, key) in enumerate(JOBS.items())
    }  # fmt: skip


def check_worlds(root, engines):
    """Each job has met itself, and nothing of the other one."""
    for word, key in JOBS.items():
        assert ended(engines[word], key).outcome.exit_code == 0, texts(root, key=key)
        members = [f"{word} master-replica-0", f"{word} worker-replica-0"]
        for name in ("master-replica-0", "worker-replica-0"):
            assert json.loads(read_answer(root, name, key)) == members


#: As Ray's own guide starts a cluster: the head on its default port, the others by its address.
RAY = """
import os, subprocess, sys, time
ray_command = [sys.executable, "-m", "ray.scripts.scripts", "start"]
more = ["--num-cpus", "1", "--disable-usage-stats"]
if os.environ["TRAINSHED_TASK"] != "master-replica-0":
    sys.exit(subprocess.call([*ray_command, "--address", "replica-0:6379", "--block", *more]))
subprocess.run([*ray_command, "--head", "--port", "6379", *more], check=True)
import ray
ray.init("auto")
while sum(node["Alive"] for node in ray.nodes()) < 3:
    time.sleep(0.2)
@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where(index):
    import socket, time
    time.sleep(1)
    return socket.gethostname()
names = sorted(set(ray.get([where.remote(index) for index in range(9)])))
print("ran on", *names, flush=True)
ray.shutdown()
"""


@pytest.mark.full
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="make test installs Ray")
def test_ray_runs_on_three_replicas_of_one_machine(root, mark):
    """It has one port for all nodes, and each node has several more at fixed places."""
    engine = launch_in_network(root, mark, RAY, RAY, RAY, layout=NetworkLayout.REPLICA)
    assert ended(engine).outcome.exit_code == 0, texts(root)
    assert read_answer(root) == "ran on replica-0 replica-1 replica-2"
