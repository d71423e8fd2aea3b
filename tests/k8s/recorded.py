"""Traces of a real cluster: reading them, playing their requests, and comparing what followed.

Names of pods end with random letters; here a pod is ``JOB-INDEX#N``, the N-th of that index.  What
an object went through is the sequence of its states, without repetitions; counters and times are
no part of a state.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TRACES = Path(__file__).parent / "traces"
KINDS = ("JobSet", "Job", "Pod", "Workload")
SUFFIX = re.compile(r"-[a-z0-9]{5}$")
VARYING = (
    (re.compile(r"UID: [0-9a-f-]{36}"), "UID"),
    (re.compile(r"queued was \d+s"), "queued was N s"),
    (re.compile(r":\d{5}->"), ":PORT->"),
    (re.compile(r"(jobset-[\w-]+)-[0-9a-f]{5}\b"), r"\1"),
)
#: Events that most recordings leave out; where one has none of them, they are not compared.
TRIMMED = frozenset({"Scheduled", "Pulled", "Created", "Started"})
#: States of a moment that a slower or faster component does not show.
REMOVED = "removed"
PASSING = (
    "Bypassed scheduling evaluation because an equivalent workload recently failed",
    "node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1",
)


@dataclass(frozen=True, slots=True)
class WatchedChange:
    """A watch's record, with the full object."""

    t: float
    type: str
    kind: str
    object: dict


@cache
def read_trace(name):
    """All records of a trace; a watch's record has its full object.  No caller may change them.

    ``name`` is that of the file without its ending, or the part before the first hyphen.
    """
    paths = sorted(TRACES.glob("*.jsonl"))
    (path,) = (path for path in paths if name in {path.stem, path.stem.partition("-")[0]})
    return tuple(_list_records(path))


def _list_records(path):
    last = {}
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["rec"] == "watch" and record["kind"] != "Event":
            if "patch" in record:
                record["object"] = apply_patch(last[record["uid"]], record["patch"])
            last[record["object"]["metadata"]["uid"]] = record["object"]
        yield record


def apply_patch(old, patch):
    """A trace's patch: dicts merge, null removes, ``$by`` merges a list by a key."""
    if isinstance(patch, dict) and "$by" in patch:
        key = patch["$by"]
        rows = {row[key]: row for row in patch["$set"]}
        present = {row[key] for row in old}
        return [rows.get(row[key], row) for row in old] + [
            row for row in patch["$set"] if row[key] not in present
        ]
    if not (isinstance(patch, dict) and isinstance(old, dict)):
        return patch
    merged = dict(old)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_patch(merged[name], value) if name in merged else value
    return merged


def changes_of(trace):
    """The watched changes of a trace."""
    return [
        WatchedChange(row["t"], row["type"], row["kind"], row["object"])
        for row in trace
        if row["rec"] == "watch"
    ]


class WatchStory:
    """What objects went through: ``states`` by object, ``events`` by object, and when."""

    def __init__(self, changes):
        self._pods = {}
        self.states = defaultdict(list)
        self.events = defaultdict(dict)
        self._names = defaultdict(list)
        for change in changes:
            self._name_pod(change)
        for change in changes:
            if change.kind == "Event":
                self._add_event(change)
            elif change.kind in KINDS:
                self._add_state(change)

    def moments(self):
        """Every first time of a state or event, by what it is."""
        rows = {
            (*subject, state): t for subject, states in self.states.items() for t, state in states
        }
        for subject, events in self.events.items():
            rows |= {(*subject, event): t for event, t in events.items()}
        return rows

    def has_all_events(self):
        names = {event[1] for events in self.events.values() for event in events}
        return "Scheduled" in names

    def path_of(self, kind, name):
        return [state for _, state in self.states[kind, name]]

    def pod_at(self, name):
        """The real name of a pod of the form ``JOB-INDEX#N``."""
        base, _, number = name.rpartition("#")
        return self._names[base][int(number) - 1]

    def subject_of(self, name):
        """The name without random letters."""
        return self._pods.get(name) or _blank(name)

    def _name_pod(self, change):
        if change.kind == "Pod" and change.type == "ADDED":
            name = change.object["metadata"]["name"]
            if name not in self._pods:
                base = SUFFIX.sub("", name)
                self._names[base].append(name)
                self._pods[name] = f"{base}#{len(self._names[base])}"

    def _add_event(self, change):
        involved = change.object["involvedObject"]
        if involved["kind"] not in KINDS:
            return
        subject = (involved["kind"], self.subject_of(involved["name"]))
        message = self._clean(change.object["message"])
        event = (change.object["type"], change.object["reason"], message)
        if not any(words in message for words in PASSING):
            self.events[subject].setdefault(event, change.t)

    def _add_state(self, change):
        name = self.subject_of(change.object["metadata"]["name"])
        for part, state in self._parts(change):
            states = self.states[change.kind, f"{name}{part}"]
            text = self._clean(json.dumps(state, sort_keys=True))
            is_passing = any(words in text for words in PASSING)
            if state is None or is_passing or (states and states[-1][1] == text):
                continue
            if '"waiting"' in text and any(text == old for _, old in states):
                continue  # a kubelet tries again and again
            if state == REMOVED and len(states) > 1 and _is_mark(states[-2][1], states[-1][1]):
                states.pop()
            states.append((change.t, text))

    def _parts(self, change):
        if change.type == "DELETED":
            return [("", REMOVED)]
        if change.kind == "Workload":
            return _conditions_apart(change.object)
        return [("", DESCRIBERS[change.kind](change.object))]

    def _clean(self, text):
        for name, subject in self._pods.items():
            text = text.replace(name, subject)
        for pattern, words in VARYING:
            text = pattern.sub(words, text)
        return text


def _is_mark(before, after):
    """Whether a state says only that an object goes: one that goes at once may not show it."""
    return after == before.replace('"deleting": false', '"deleting": true')


def _blank(text):
    for pattern, words in VARYING:
        text = pattern.sub(words, text)
    return text


def _conditions_of(obj, names=None):
    rows = (obj.get("status") or {}).get("conditions") or ()
    return {
        row["type"]: [row["status"], row.get("reason", ""), row.get("message", "")]
        for row in rows
        if names is None or row["type"] in names
    }


def _conditions_apart(workload):
    """Kueue writes conditions one by one in no certain order, so that each has a path."""
    for name, words in _conditions_of(workload).items():
        yield f" {name}", words


def _describe_jobset(obj):
    status = obj.get("status") or {}
    return {
        "deleting": "deletionTimestamp" in obj["metadata"],
        "suspend": bool(obj["spec"].get("suspend")),
        "restarts": status.get("restarts", 0),
        "counted": status.get("restartsCountTowardsMax", 0),
        "end": status.get("terminalState"),
        "conditions": _conditions_of(obj),
    }


def _describe_job(obj):
    return {
        "deleting": "deletionTimestamp" in obj["metadata"],
        "suspend": bool(obj["spec"].get("suspend")),
        "conditions": _conditions_of(obj),
    }


def _describe_pod(obj):
    """None while a container is being made: not every kubelet shows that."""
    status = obj.get("status") or {}
    states = {
        row["name"]: _describe_container(row["state"])
        for row in status.get("containerStatuses") or ()
    }
    is_deleting = "deletionTimestamp" in obj["metadata"]
    is_made = any(words[1] == "ContainerCreating" for words in states.values())
    if is_made and not is_deleting:
        return None
    return {
        "deleting": is_deleting,
        "phase": status.get("phase"),
        "containers": states,
        "conditions": _conditions_of(obj, {"Ready", "PodScheduled", "DisruptionTarget"}),
    }


def _describe_container(state):
    (kind, words), *_ = state.items()
    return [kind, words.get("reason", ""), words.get("exitCode"), words.get("message", "")]


DESCRIBERS = {"JobSet": _describe_jobset, "Job": _describe_job, "Pod": _describe_pod}


def differing_paths(recorded, emulated, skipped=""):
    """Paths of objects that are not the same, as text; empty where all are.

    Kinds that a recording did not watch are not compared, nor names that begin with ``skipped``.
    """
    lines = []
    for subject in sorted(_subjects(recorded.states, emulated.states, skipped)):
        wanted, given = recorded.path_of(*subject), emulated.path_of(*subject)
        if wanted != given:
            lines += [" ".join(subject), *_mark(wanted, given)]
    return "\n".join(lines)


def differing_events(recorded, emulated, left_out=""):
    """As ``differing_paths``, for events."""
    lines = []
    skipped = set() if recorded.has_all_events() else TRIMMED
    for subject in sorted(_subjects(recorded.events, emulated.events, left_out)):
        wanted, given = (
            sorted(event for event in story.events[subject] if event[1] not in skipped)
            for story in (recorded, emulated)
        )
        if wanted != given:
            lines += [" ".join(subject), *_mark(wanted, given)]
    return "\n".join(lines)


def swapped_moments(recorded, emulated, apart_s):
    """Pairs that the recording has at least some seconds apart, and the emulator the other way."""
    wanted, given = recorded.moments(), emulated.moments()
    rows = [(t, given[moment], moment) for moment, t in wanted.items() if moment in given]
    rows.sort(key=lambda row: row[:2])
    pairs = [
        (first, second)
        for number, first in enumerate(rows)
        for second in rows[number + 1 :]
        if second[0] - first[0] >= apart_s and second[1] < first[1]
    ]
    return "\n".join(f"{first}\n   before {second}" for first, second in pairs[:10])


def _subjects(wanted, given, skipped):
    kinds = {kind for kind, _ in wanted}
    return {
        (kind, name)
        for kind, name in {*wanted, *given}
        if kind in kinds and not (skipped and name.startswith(skipped))
    }


def _mark(wanted, given):
    return [
        *(f"  recorded {row}" for row in wanted if row not in given),
        *(f"  emulated {row}" for row in given if row not in wanted),
        *(["  in another order or number"] if set(wanted) == set(given) else []),
    ]
