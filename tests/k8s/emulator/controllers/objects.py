"""What controllers read from objects and write into them; objects are dicts as the API has them."""

import copy
from datetime import UTC, datetime

JOB_KIND, JOBSET_KIND, POD_KIND = "Job", "JobSet", "Pod"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"


def stamp(now_s):
    """RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text):
    return datetime.fromisoformat(text).timestamp()


def key_of(obj):
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def uid_of(obj):
    return obj["metadata"]["uid"]


def labels_of(obj):
    return obj["metadata"].get("labels") or {}


def status_of(obj):
    return obj.get("status") or {}


def is_deleting(obj):
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj, kind):
    """The uid of the controlling owner of a kind, or None."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == kind:
            return owner["uid"]
    return None


def owner_reference(owner):
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def find_condition(obj, name):
    conditions = status_of(obj).get("conditions") or ()
    return next((row for row in conditions if row["type"] == name), None)


def is_true(obj, name):
    condition = find_condition(obj, name)
    return condition is not None and condition["status"] == "True"


def set_condition(status, condition, now_s):
    """Add or replace a condition by its type; the transition's time stays if the status does."""
    rows = status.setdefault("conditions", [])
    old = next((row for row in rows if row["type"] == condition["type"]), None)
    row = dict(condition)
    is_same = old is not None and old["status"] == row["status"]
    row["lastTransitionTime"] = old["lastTransitionTime"] if is_same else stamp(now_s)
    if old is None:
        rows.append(row)
    else:
        rows[rows.index(old)] = row
    return old != row


def with_status(obj, status):
    """A copy of an object with another status."""
    return {**copy.deepcopy({k: v for k, v in obj.items() if k != "status"}), "status": status}


def status_copy(obj):
    return copy.deepcopy(status_of(obj))


def parse_quantity(value):
    """A quantity such as ``2``, ``500m``, ``64Mi`` or ``1k`` as a number."""
    text = str(value)
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


SUFFIXES = {
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)},
    "m": 0.001,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
}


def requests_of(pod_spec):
    """What a pod asks a node for: requests of its containers, or limits where these are absent."""
    totals = {}
    for container in pod_spec["containers"]:
        resources = container.get("resources") or {}
        rows = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, value in rows.items():
            totals[name] = totals.get(name, 0) + parse_quantity(value)
    return totals
