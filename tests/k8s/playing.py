"""Plays the requests of a recorded trace on a scripted cluster at the times of the recording."""

import copy

from k8s.emulator.store import NotFound
from k8s.recorded import WatchedChange, WatchStory, changes_of, read_trace
from k8s.scripted_cluster import ScriptedCluster

KINDS_BY_PATH = {
    "jobsets": "JobSet",
    "pods": "Pod",
    "nodes": "Node",
    "localqueues": "LocalQueue",
}


def play(name, prepare=None):
    """The recorded and the emulated story of a trace."""
    trace = read_trace(name)
    player = Player(trace, prepare)
    player.play()
    return WatchStory(changes_of(trace)), WatchStory(player.changes)


class Player:
    def __init__(self, trace, prepare):
        self._trace = trace
        self._recorded = WatchStory(changes_of(trace))
        self.namespace = trace[0]["namespace"]
        self.cluster = ScriptedCluster()
        self.cluster.create_namespace(self.namespace)
        self._start_s = self.cluster.clock.now_s()
        self.changes = []
        self.cluster.store.subscribe(self._note)
        (prepare or (lambda cluster: cluster.add_node()))(self.cluster)

    def play(self):
        for record in self._trace:
            if record["rec"] in {"request", "note"}:
                self.cluster.run(record["t"] - self._now_s)
                getattr(self, f"_do_{record['rec']}")(record)
        self.cluster.run(self._trace[-1]["t"] - self._now_s + 1.0)

    @property
    def _now_s(self):
        return self.cluster.clock.now_s() - self._start_s

    def _note(self, change, obj):
        if obj["metadata"].get("namespace") == self.namespace:
            self.changes.append(WatchedChange(self._now_s, change, obj["kind"], obj))

    def _do_note(self, record):
        if record["text"].startswith("the agent of node gpu-node-b stops"):
            self.cluster.plane.silence_node("gpu-node-b")

    def _do_request(self, record):
        parts = record["path"].split("/")
        if record["method"] == "POST" and parts[-1] == "eviction":
            self.cluster.plane.evict(self.namespace, self._own_name(parts[-2]))
        elif record["method"] == "POST":
            body = copy.deepcopy(record["body"])
            body["metadata"].setdefault("namespace", self.namespace)
            self.cluster.store.create(body)
        elif record["method"] in {"DELETE", "PATCH"}:
            self._change(record, KINDS_BY_PATH[parts[-2]], self._own_name(parts[-1]))

    def _change(self, record, kind, name):
        space = None if kind == "Node" else self.namespace
        if record["method"] == "PATCH":
            patch = copy.deepcopy(record["body"])
            self.cluster.store.modify(kind, space, name, lambda obj: merge(obj, patch))
            return
        propagation = record.get("query", {}).get("propagationPolicy", "Background")
        try:
            self.cluster.store.delete(kind, space, name, propagation=propagation)
        except NotFound:
            raise AssertionError(f"{kind} {name} is not there at {record['t']}") from None

    def _own_name(self, name):
        """The emulator's name of a pod of the recording."""
        subject = self._recorded.subject_of(name)
        return WatchStory(self.changes).pod_at(subject) if "#" in subject else name


def merge(obj, patch):
    """A JSON merge patch, in place."""
    for key, value in patch.items():
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict):
            merge(obj.setdefault(key, {}), value)
        else:
            obj[key] = value
