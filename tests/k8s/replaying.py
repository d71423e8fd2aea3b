"""Replays the traces of a real cluster, and what our engine would decide at every moment."""

from dataclasses import replace

from k8s.recorded import read_trace
from trainshed.engines.decisions import GiveUp, Over, Recorded, TakeClaim, give_up
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.facts import KubernetesFacts
from trainshed.engines.kubernetes.state.proof import (
    ClusterMemory,
    LookUp,
    Withdraw,
    decide_state,
    follow,
)
from trainshed.model.attempt import AttemptKey, Outcome, ReplicaExit
from trainshed.model.roles import Role

KEY = AttemptKey(4611686018427387904, 2)
#: Seconds between two observations if nothing happens in the cluster.
TICK_S = 1.0


class Cluster:
    """What the API would list after the records of a trace so far."""

    def __init__(self, *, without=()):
        """``without``: the replicated Jobs that are left out of the trace."""
        self.objects = {"JobSet": {}, "Pod": {}, "Workload": {}}
        self.events = []
        self.version = 0
        """The number of changes so far."""
        self.nodes = {"gpu-node-a": True, "gpu-node-b": True}
        self._without = without

    def apply(self, record):
        self.version += 1
        if record["rec"] == "watch" and record["kind"] == "Event":
            self.events.append(record["object"])
        elif record["rec"] == "watch" and record["kind"] in self.objects:
            self._watch(record)
        elif record["rec"] == "watch":
            self.version -= 1
        elif record["rec"] == "snapshot" and "node" in record:
            (ready,) = record["node"]["ready"]
            self.nodes[record["node"]["name"]] = ready["status"] == "True"
        elif record["rec"] == "request" and record["method"] == "DELETE":
            self.nodes.pop(record["path"].removeprefix("/api/v1/nodes/"), None)

    def _watch(self, record):
        obj = record["object"]
        if obj["metadata"].get("labels", {}).get(objects.ROLE) in self._without:
            return
        if record["kind"] == "JobSet" and self._without:
            jobs = [j for j in obj["spec"]["replicatedJobs"] if j["name"] not in self._without]
            obj = {**obj, "spec": {**obj["spec"], "replicatedJobs": jobs}}
        if record["type"] == "DELETED":
            self.objects[record["kind"]].pop(obj["metadata"]["uid"], None)
        else:
            self.objects[record["kind"]][obj["metadata"]["uid"]] = obj

    def jobset(self, name):
        jobsets = self.objects["JobSet"].values()
        return next((obj for obj in jobsets if obj["metadata"]["name"] == name), None)


class Attempt:
    """One attempt that an engine follows: it reads facts, decides, and performs the decision."""

    def __init__(self, cluster, name, records, **settings):
        """``records``: pairs of a time and the facts of the folder from then on."""
        self._cluster = cluster
        self._name = name
        self._records = sorted(records, key=lambda pair: pair[0])
        self._folder = {}
        self._uid = ""
        self._version = None
        self._facts = None
        self._memory = ClusterMemory()
        self._settings = {"lost_after_s": 90.0, "nodes": True, **settings}
        self.decisions = []
        """Pairs of a time and a decision, whenever the decision changes."""
        self.requests = 0
        """The number of requests for the JobSet by its name."""

    @property
    def is_over(self):
        return bool(self.decisions) and isinstance(self.decisions[-1][1], Over | Recorded)

    def observe(self, now_s):
        self._read_folder(now_s)
        if self._version != self._cluster.version:
            self._facts, self._version = self._read_cluster(), self._cluster.version
        folder = {k: v for k, v in self._folder.items() if k != "is_claimed"}
        facts = replace(self._facts, now_s=now_s, **folder)
        if not facts.uid:
            return
        self._memory = follow(self._memory, facts)
        decision = self._decide(facts)
        if not self.decisions or self.decisions[-1][1] != decision:
            self.decisions.append((now_s, decision))

    def _decide(self, facts):
        decision = decide_state(facts, self._memory)
        if isinstance(decision, LookUp):
            self.requests += 1
            facts = replace(facts, lookup=True)
            self._memory = follow(self._memory, facts)
            decision = decide_state(facts, self._memory)
        if isinstance(decision, TakeClaim):
            self._folder["claim"] = not self._folder.get("is_claimed", facts.has_begun)
            facts = replace(facts, claim=self._folder["claim"])
            decision = decide_state(facts, self._memory)
        if isinstance(decision, GiveUp):
            decision = give_up(
                decision.why, "", has_ended=False, has_decided=False, end=decision.end
            )
        if isinstance(decision, Withdraw):
            self._folder["withdrawn"] = decision.end
        if isinstance(decision, Over):
            self._folder["end"] = decision.end
        return decision

    def _read_folder(self, now_s):
        while self._records and self._records[0][0] <= now_s:
            self._folder.update(self._records.pop(0)[1])

    def _read_cluster(self):
        jobset = self._cluster.jobset(self._name)
        if jobset is not None and not self._uid:
            self._uid = jobset["metadata"]["uid"]
        is_own = jobset is not None and jobset["metadata"]["uid"] == self._uid
        settings = dict(self._settings)
        nodes = self._cluster.nodes if settings.pop("nodes") else None
        pods, workloads = (self._cluster.objects[kind].values() for kind in ("Pod", "Workload"))
        return KubernetesFacts(
            key=KEY,
            name=self._name,
            uid=self._uid,
            jobset=objects.read_jobset(jobset) if is_own else None,
            successor=jobset["metadata"]["uid"] if jobset is not None and not is_own else "",
            pods=objects.read_pods(pods, self._uid),
            events=objects.read_events(self._cluster.events, self._name),
            workload=objects.find_workload(workloads, self._uid),
            nodes=None if nodes is None else dict(nodes),
            **settings,
        )


def replay(trace, name, records=(), *, until_s=0.0, without=(), **settings):
    """Follow an attempt over a trace; return its decisions with their times.

    It ends with the first decision that is final, or ``until_s`` seconds after the start, at the
    end of the trace at the earliest.
    """
    cluster = Cluster(without=without)
    attempt = Attempt(cluster, name, records, **settings)
    now_s = 0.0
    for record in read_trace(trace):
        while now_s + TICK_S < record.get("t", 0.0) and not attempt.is_over:
            now_s += TICK_S
            attempt.observe(now_s)
        now_s = max(now_s, record.get("t", 0.0))
        cluster.apply(record)
        if attempt.is_over:
            break
        attempt.observe(now_s)
    while now_s < until_s and not attempt.is_over:
        now_s += TICK_S
        attempt.observe(now_s)
    return attempt.decisions


def outcome(code=0, signal=None, *, interrupted=False, message="it ended"):
    status = code if signal is None else 128 + signal
    code = code if signal is None else None
    replica = ReplicaExit(
        Role.PRIMARY, 0, "primary-0", code, signal, 1.0, stopped_by_us=interrupted
    )
    return Outcome(status, message, (replica,), interrupted=interrupted)


def kinds(decisions):
    """The names of the decisions, each once in a row."""
    names = [type(decision).__name__ for _, decision in decisions]
    return [name for i, name in enumerate(names) if not i or names[i - 1] != name]


def explanations(decisions):
    """The explanations of an attempt that waits, in order."""
    values = (getattr(decision, "waits", None) for _, decision in decisions)
    return [value for value in values if value is not None]
