"""A cluster on a manual clock whose containers are scripts that only end; no process is started."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from k8s.emulator.admission import AdmissionChain, Webhook
from k8s.emulator.collection import GarbageCollector
from k8s.emulator.control_plane import ControlPlane
from k8s.emulator.controllers.kueue_jobs import suspend_queued
from k8s.emulator.controllers.loop import ManualClock
from k8s.emulator.pods.images import ContainerImage, ImageShelf
from k8s.emulator.pods.pod_run import StartRefused
from k8s.emulator.store import Store

IMAGE = "localhost/trainer:1"
TERM_CODE, KILL_CODE, SEGV_CODE = 143, 137, 139
SIGTERM = 15
END_S = 0.1
KUEUE_WEBHOOK = Webhook("mjobset.kb.io", suspend_queued, ("JobSet",))
RESTARTED_FIRST = '[ "$RESTART_ATTEMPT" = 1 ] && [ "$JOB_COMPLETION_INDEX" = 0 ]'
FIRST_RUN = '[ "$RESTART_ATTEMPT" = 0 ]'


@dataclass(frozen=True, slots=True)
class ContainerScript:
    """A program that ends after ``after_s``, or never; only some end at SIGTERM."""

    after_s: float | None
    code: int = 0
    obeys: bool = False
    is_oom: bool = False


def read_script(argv, env):
    """What a recorded container's command does, in the words of its shell or Python text."""
    text = argv[-1] if argv[0].endswith("sh") else " ".join(argv)
    if "bytearray" in text:
        return ContainerScript(0.5, KILL_CODE, is_oom=True)
    if "string_at" in text:
        return ContainerScript(2.0, SEGV_CODE)
    if text.startswith("/usr/bin/python3"):
        return ContainerScript(1.0)
    text = _choose_branch(text, env)
    obeys = "exit 143" in text and "trap" in text
    if "while" in text:
        return ContainerScript(None, obeys=obeys)
    code = re.search(r"exit (\d+)", text)
    seconds = sum(map(float, re.findall(r"sleep (\d+)", text)))
    return ContainerScript(seconds, int(code[1]) if code else 0)


def _choose_branch(text, env):
    match = re.match(r"if (.*?); then (.*?);? (?:else (.*?); )?fi;? ?(.*)", text)
    if not match:
        return text
    condition, first, second, rest = match.groups()
    restart, index = env.get("RESTART_ATTEMPT"), env.get("JOB_COMPLETION_INDEX")
    holds = {RESTARTED_FIRST: (restart, index) == ("1", "0"), FIRST_RUN: restart == "0"}
    return first if holds[condition] else second or rest


class ScriptedRuntime:
    def __init__(self):
        self.on_exit = None
        self.loop = None
        self.hosts = {}
        self.orders = {}
        self._numbers = itertools.count(2)
        self._scripts, self._ends, self._open = {}, {}, set()

    def open_pod(self, pod):
        self._open.add(pod["metadata"]["uid"])
        return f"10.89.0.{next(self._numbers)}"

    def start(self, pod, order):
        if order.argv[0] == "/no/such/binary":
            raise StartRefused(
                f'exec: "{order.argv[0]}": stat {order.argv[0]}: no such file or directory'
            )
        key = (pod["metadata"]["uid"], order.name)
        script = self._scripts[key] = read_script(order.argv, order.env)
        self.orders[key] = order
        if script.after_s is not None:
            self._end(key, script.code, script.after_s)

    def signal(self, uid, container, signum):
        script = self._scripts[uid, container]
        if signum == SIGTERM and script.obeys:
            self._end((uid, container), TERM_CODE, END_S)
        elif signum != SIGTERM:
            self._end((uid, container), KILL_CODE, 0.0)

    def kill_pod(self, uid):
        self._open.discard(uid)

    def is_open(self, uid):
        return uid in self._open

    def close_pod(self, uid):
        self._open.discard(uid)

    def write_hosts(self, uid, text):
        self.hosts[uid] = text

    def log_path(self, _uid, _container):
        return None

    def keys_of(self, _change, _obj):
        return ()

    def reconcile(self, key):
        """A container's end is due."""
        if key in self._scripts and key[0] in self._open:
            is_oom = self._scripts.pop(key).is_oom
            self.on_exit(*key, self._ends.pop(key), is_oom=is_oom)

    def _end(self, key, code, after_s):
        self._ends[key] = code
        self.loop.wake(self, key, after_s)


class ScriptedCluster:
    """A store with admission and garbage collection, all controllers, and one node of 16 GPUs."""

    def __init__(self, *, times=None):
        self.clock = ManualClock()
        self.store = Store(clock=self.clock.now_s)
        self.store.admit = AdmissionChain(self.store)
        self.store.admit.webhooks.append(KUEUE_WEBHOOK)
        self.garbage = GarbageCollector(self.store)
        self.images, self.runtime = ImageShelf(), ScriptedRuntime()
        self.images.add(IMAGE, ContainerImage(Path("/")))
        self.plane = ControlPlane(
            self.store, self.runtime, self.images, times=times, clock=self.clock
        )
        self.loop = self.plane.parts.loop
        self.loop.after_step = self.garbage.drain
        self.loop.add(self.runtime)
        self.runtime.loop = self.loop

    def add_node(self, name="gpu-node-a", *, gpus=16, **more):
        resources = {"cpu": 8, "memory": "16Gi", "nvidia.com/gpu": gpus}
        return self.plane.add_node(name, resources, **more)

    def create_namespace(self, name):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return self.store.create(space)

    def run(self, seconds):
        """Let all happen that is due within some seconds."""
        self.garbage.drain()
        self.loop.run_until(self.clock.now_s() + seconds)

    def run_while(self, is_pending):
        self.garbage.drain()
        self.loop.run_while(is_pending)

    def get(self, kind, name, namespace="default"):
        return self.store.get(kind, namespace, name)

    def list(self, kind, namespace="default"):
        return self.store.list(kind, namespace)[0]

    def events(self, name, namespace="default"):
        """Reasons and messages of an object's events, in the order of their first time."""
        rows = [
            row for row in self.list("Event", namespace) if row["involvedObject"]["name"] == name
        ]
        rows.sort(key=lambda row: row["firstTimestamp"])
        return [(row["reason"], row["message"]) for row in rows]
