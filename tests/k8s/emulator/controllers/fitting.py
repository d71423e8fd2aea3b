"""Whether a pod fits a node, and the scheduler's sentence where it fits none; pure."""

from collections import Counter
from dataclasses import dataclass

from k8s.emulator.controllers.objects import (
    labels_of,
    parse_quantity,
    requests_of,
    status_of,
)

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Reasons against a node; ``is_preemptible`` where ended pods would change them."""

    reasons: tuple[str, ...] = ()
    is_preemptible: bool = False

    @property
    def is_fit(self):
        return not self.reasons


def judge_node(pod, node, pods_of_node):
    """The first filter that refuses decides, in the scheduler's order of filters."""
    if node["spec"].get("unschedulable") and not _tolerates_cordon(pod):
        return NodeVerdict(("node(s) were unschedulable",))
    if any(not _is_tolerated(pod, taint) for taint in _hard_taints(node)):
        return NodeVerdict(("node(s) had untolerated taint(s)",))
    if not _matches_node(pod, node):
        return NodeVerdict(("node(s) didn't match Pod's node affinity/selector",))
    return _judge_resources(pod, node, pods_of_node)


def explain_refusals(verdicts):
    """The sentence for a pod that no node takes."""
    total = len(verdicts)
    head = f"0/{total} nodes are available"
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(reason for verdict in verdicts for reason in verdict.reasons)
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    helps = Counter(NO_VICTIMS if row.is_preemptible else NOT_HELPFUL for row in verdicts)
    tail = ", ".join(sorted(f"{count} {words}" for words, count in helps.items()))
    return f"{head}: {reasons}. no new claims to deallocate, preemption: {head}: {tail}."


def is_toleration_of(toleration, taint):
    """Whether a toleration covers a taint."""
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    is_any = toleration.get("operator") == "Exists"
    return is_any or toleration.get("value", "") == taint.get("value", "")


def _tolerates_cordon(pod):
    return _is_tolerated(pod, {"key": UNSCHEDULABLE, "effect": "NoSchedule"})


def _hard_taints(node):
    return [row for row in node["spec"].get("taints") or () if row["effect"] in HARD_EFFECTS]


def _is_tolerated(pod, taint):
    return any(is_toleration_of(row, taint) for row in pod["spec"].get("tolerations") or ())


def _matches_node(pod, node):
    labels = labels_of(node)
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(_matches_expression(labels, row) for row in term.get("matchExpressions") or ())
        for term in required["nodeSelectorTerms"]
    )


def _matches_expression(labels, row):
    value, wanted = labels.get(row["key"]), row.get("values") or ()
    return {
        "In": value in wanted,
        "NotIn": value not in wanted,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": value is not None and wanted and int(value) > int(wanted[0]),
        "Lt": value is not None and wanted and int(value) < int(wanted[0]),
    }[row["operator"]]


def _judge_resources(pod, node, pods_of_node):
    allocatable = {
        name: parse_quantity(value)
        for name, value in (status_of(node).get("allocatable") or {}).items()
    }
    used = Counter()
    for other in pods_of_node:
        used.update(requests_of(other["spec"]))
    reasons = []
    if len(pods_of_node) + 1 > allocatable.get("pods", 110):
        reasons.append("Too many pods")
    short = {
        name: value
        for name, value in requests_of(pod["spec"]).items()
        if used[name] + value > allocatable.get(name, 0) and value
    }
    reasons += [f"Insufficient {name}" for name in sorted(short)]
    is_preemptible = all(value <= allocatable.get(name, 0) for name, value in short.items())
    return NodeVerdict(tuple(reasons), bool(reasons) and is_preemptible)
