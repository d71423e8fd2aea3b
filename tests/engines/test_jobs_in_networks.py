"""Jobs and replicas that choose their ports themselves do not meet in networks of their own."""

import importlib.util
import json

import pytest

from engines.attempts import KEY, OTHER, ended, read_answer, texts
from engines.networks import MODES, launch_in_network
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


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "layout",
    [NetworkLayout.REPLICA, pytest.param(NetworkLayout.JOB, marks=pytest.mark.full)],
)
def test_two_torchruns_of_one_port_and_one_rendezvous_are_two_worlds(layout, root, mark):
    keys = {"alpha": KEY, "beta": OTHER}
    engines = {}
    for number, (word, key) in enumerate(keys.items()):
        code = TORCHRUN.format(host="replica-0", script=MEMBERS, word=word)
        engines[word] = launch_in_network(
            root, mark, code, code, layout=layout, key=key, owner=Owner(project=word, number=number)
        )
    for word, key in keys.items():
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
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is not installed")
def test_ray_runs_on_three_replicas_of_one_machine(root, mark):
    """It has one port for all nodes, and each node has several more at fixed places."""
    engine = launch_in_network(root, mark, RAY, RAY, RAY, layout=NetworkLayout.REPLICA)
    assert ended(engine).outcome.exit_code == 0, texts(root)
    assert read_answer(root) == "ran on replica-0 replica-1 replica-2"
