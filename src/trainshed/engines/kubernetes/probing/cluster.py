"""The findings of a probe that need no pod: versions, permissions, nodes, queues, the claim."""

from collections.abc import Iterator, Sequence
from typing import Final

from trainshed.engines.base import EngineFinding
from trainshed.engines.kubernetes import nodes, paths, start_check
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiRefused
from trainshed.engines.kubernetes.nodes import ClusterNode
from trainshed.engines.kubernetes.probing.obstacles import list_objects
from trainshed.engines.kubernetes.probing.pods import ProbeTarget
from trainshed.engines.kubernetes.start_check import ClusterFacts, DeniedVerbs

_ARCHITECTURE: Final = "kubernetes.io/arch"


def judge_cluster(
    client: Client, facts: ClusterFacts, target: ProbeTarget
) -> Iterator[EngineFinding]:
    """Yield the findings of the API's answers.  Raises ApiAway."""
    yield EngineFinding("version", is_well=True, found=_read_version(client))
    yield judge_jobset(facts)
    if text := start_check.explain_namespace(facts):
        yield _make_finding("namespace", text)
    yield from judge_permissions(facts)
    yield _judge_nodes(client, target)
    yield from judge_queues(facts, start_check.list_queues(target.options))
    yield judge_claim(facts)


def _read_version(client: Client) -> str:
    try:
        return f"Kubernetes {client.get(paths.VERSION).get('gitVersion', 'of an unknown version')}"
    except ApiRefused as refusal:
        return f"Kubernetes, whose version the account may not read ({refusal.message})"


def judge_jobset(facts: ClusterFacts) -> EngineFinding:
    """Judge the versions of JobSet that the API serves."""
    if text := start_check.explain_jobset(facts):
        return _make_finding("JobSet", text)
    versions = ", ".join(facts.jobset_versions or ("unknown",))
    return EngineFinding("JobSet", is_well=True, found=f"{paths.JOBSET} {versions}")


def judge_permissions(facts: ClusterFacts) -> Iterator[EngineFinding]:
    """Yield one finding for each rule that a Role lacks; one that says so if it lacks none."""
    for row in facts.denied:
        yield _judge_rule(row, facts.namespace)
    if not any(row.permission.is_needed for row in facts.denied):
        text = f"the account of the server may do all that jobs need in {facts.namespace}"
        yield EngineFinding("permissions", is_well=True, found=text)


def _judge_rule(row: DeniedVerbs, namespace: str) -> EngineFinding:
    purpose = row.permission.purpose
    if row.permission.is_needed:
        advice = f"let an administrator add the rule: without it the server cannot {purpose}"
        text = row.describe(namespace)
        return EngineFinding("permissions", is_well=False, found=text, advice=advice)
    text = f"{row.describe(namespace)}; jobs run without it, but the server cannot {purpose}"
    return EngineFinding(f"permission for {row.permission.resource}", is_well=True, found=text)


def _judge_nodes(client: Client, target: ProbeTarget) -> EngineFinding:
    try:
        rows = list(list_objects(client, paths.NODES, {}))
    except ApiRefused:
        text = "the account of the server may not list nodes; jobs run, and the fleet is not shown"
        return EngineFinding("nodes", is_well=True, found=text)
    return judge_nodes(nodes.read_nodes(rows, target.options), target.runtime.architecture)


def judge_nodes(rows: Sequence[ClusterNode], architecture: str) -> EngineFinding:
    """Judge whether a node that the settings accept can run the server's interpreter."""
    usable = [row for row in rows if row.is_open and row.labels.get(_ARCHITECTURE) == architecture]
    return EngineFinding(
        "nodes",
        is_well=bool(usable),
        found=f"{len(usable)} of {len(rows)} nodes that match `node_selector` accept pods and have "
        f"the server's architecture {architecture}",
        advice="correct `node_selector`, add a node, or run the server on the architecture of the "
        "nodes",
    )


def judge_queues(facts: ClusterFacts, queues: list[str]) -> Iterator[EngineFinding]:
    """Judge Kueue, and the LocalQueues of the settings."""
    names = f"the queues of the settings are {', '.join(queues)}" if queues else "no queue is set"
    if facts.kueue_versions is None:
        text = f"not known, because the account may not read the API's groups; {names}"
        yield EngineFinding("Kueue", is_well=True, found=text)
        return
    if not facts.kueue_versions:
        is_well = not queues
        advice = "install Kueue, or remove `queue` from the [[engine]] table"
        text = f"not in the cluster; {names}"
        yield EngineFinding("Kueue", is_well=is_well, found=text, advice=advice)
        return
    version = start_check.choose_kueue_version(facts.kueue_versions)
    yield EngineFinding("Kueue", is_well=True, found=f"{paths.KUEUE} {version}; {names}")
    if text := start_check.explain_queues(facts.missing_queues, facts.namespace):
        yield _make_finding("queue", text)


def judge_claim(facts: ClusterFacts) -> EngineFinding:
    """Judge the claim by its object."""
    if text := start_check.explain_claim(facts):
        return _make_finding("claim", text)
    phase = facts.claim_phase or "which the account may not read"
    return EngineFinding("claim", is_well=True, found=f"{facts.claim}, {phase}")


def _make_finding(check: str, text: str) -> EngineFinding:
    """Make a bad finding of a sentence whose last part is the advice."""
    trouble, _, advice = text.rpartition("; ")
    return EngineFinding(check, is_well=False, found=trouble, advice=advice)
