"""Sentences for users about an attempt on a cluster, from the cluster's own words.

A sentence names the replicas and the cluster's objects, gives the cluster's reason, and says what
helps.  The text of one trouble stays the same over time: the server stores every new text.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from trainshed.engines.kubernetes.state.facts import KubernetesFacts, PodFacts
from trainshed.model.explanation import Explanation, Reason

#: Most replicas or nodes that a sentence names.
_NAMED_MAX: Final = 3
_BLOCKERS_MAX: Final = 10
#: Longest text of the cluster in a sentence, in characters.
_QUOTE_MAX: Final = 300

#: Words of users for replicated Jobs: one replica, several replicas.
_ROLES: Final[Mapping[str, tuple[str, str]]] = {
    "ps": ("parameter server", "parameter servers"),
    "primary": ("primary", "primaries"),
    "worker": ("worker", "workers"),
    "evaluator": ("evaluator", "evaluators"),
    "reducer": ("reducer", "reducers"),
}

#: The scheduler's words for nodes that cannot hold a pod: a pattern, the words for one node and for
#: several nodes, and the reason.  The first match counts.
_NODE_WORDS: Final = tuple(
    (re.compile(pattern), one, several, reason)
    for pattern, one, several, reason in (
        (r"Insufficient (?P<what>\S+)", "lacks {what}", "lack {what}", Reason.CAPACITY),
        (
            r"Too many pods",
            "holds its maximum of pods",
            "hold their maximum of pods",
            Reason.CAPACITY,
        ),
        (r"were unschedulable", "is cordoned", "are cordoned", Reason.DRAINED),
        (
            r"untolerated taint\(s\)|had taints",
            "has a taint that the job does not tolerate",
            "have a taint that the job does not tolerate",
            Reason.NO_SUCH_NODE,
        ),
        (
            r"untolerated taint \{(?P<what>[^:}]+).*\}|had taint \{(?P<what2>[^:}]+).*\}",
            "has the taint {what}, which the job does not tolerate",
            "have the taint {what}, which the job does not tolerate",
            Reason.NO_SUCH_NODE,
        ),
        (
            r"didn't match Pod's node affinity/selector|didn't match node selector",
            "does not match the job's node selector",
            "do not match the job's node selector",
            Reason.NO_SUCH_NODE,
        ),
        (
            r"volume node affinity conflict|persistent ?volumes?",
            "cannot mount a volume of the job",
            "cannot mount a volume of the job",
            Reason.VOLUME,
        ),
    )
)
_NODES: Final = re.compile(r"\d+/\d+ nodes are available: (?P<why>.*)", re.DOTALL)
_AFTER_NODES: Final = re.compile(r"\.? +(?:no new claims to|preemption:)|\.$")
_NODE_COUNT: Final = re.compile(r"(\d+) (.+?)(?=, \d+ |$)", re.DOTALL)
#: What a kubelet and a container runtime put before the cause of a failed pull.
_PULL_NOISE: Final = re.compile(
    r"^(?:Back-off pulling image \S+: )?(?:ErrImagePull: )?(?:rpc error: code = \w+ desc = )?"
    r"(?:failed to pull and unpack image \S+: )?(?:failed to resolve (?:reference|image) \S+: )?"
)
#: The port of this side of a connection is another one at every try.
_OWN_PORT: Final = re.compile(r"(\d+(?:\.\d+){3}|\]):\d+->")
_START_NOISE: Final = re.compile(r"^.*unable to start container process: (?:error during .*?: )?")
#: The end of the name of a pod that the API refused is another one at every try.
_POD_NAME: Final = re.compile(r'^(?:Error creating: )?(?:pods "\S+" is forbidden: )?')


def quote(text: str) -> str:
    """Return a text of the cluster in one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE_MAX else f"{line[: _QUOTE_MAX - 3]}..."


def join_names(names: Sequence[str]) -> str:
    """Join names, of which a sentence has at most three: ``a, b, c and 5 more``."""
    more = len(names) - _NAMED_MAX
    text = ", ".join(names[:_NAMED_MAX])
    return f"{text} and {more} more" if more > 0 else text


def count_replicas(counts: Mapping[str, tuple[int, int]]) -> str:
    """Describe parts of the roles: ``3 of 8 workers``, ``the primary``, joined by ``and``.

    ``counts`` has the number of replicas and the number of all replicas of each role.
    """
    return " and ".join(_count_role(role, *count) for role, count in counts.items())


def _count_role(role: str, part: int, total: int) -> str:
    one, several = _ROLES.get(role, (role, f"{role} replicas"))
    return f"the {one}" if total == 1 else f"{part} of {total} {several}"


def explain_created(facts: KubernetesFacts) -> Explanation:
    """Explain an attempt whose JobSet has no pod with a node yet."""
    text = f"the cluster has accepted the attempt as the JobSet {facts.name} and creates its pods"
    return Explanation(reason=Reason.ENGINE_QUEUE, message=text)


def explain_unreachable(facts: KubernetesFacts) -> Explanation:
    """Explain an attempt on nodes that do not report any more, and how to fence it."""
    nodes = facts.silent
    subject = f"node {nodes[0]} has" if len(nodes) == 1 else f"nodes {join_names(nodes)} have"
    text = (
        f"the {subject} stopped reporting to the cluster, so the state of the attempt is unknown; "
        "an administrator may remove a node that will not come back "
        f"(`kubectl delete node {nodes[0]}`), or check that no process of the attempt runs there "
        f"and run `trainshed attempts fence {facts.key}`"
    )
    return Explanation(
        reason=Reason.ENGINE_AWAY, message=text, blockers=tuple(nodes[:_BLOCKERS_MAX])
    )


def explain_unscheduled(
    counts: Mapping[str, tuple[int, int]], messages: Collection[str]
) -> Explanation:
    """Explain replicas for which the scheduler has no node, by its messages about them."""
    causes = list(dict.fromkeys(cause for message in messages for cause in _read_nodes(message)))
    whose = count_replicas(counts)
    verb = "has" if whose.startswith("the ") and " and " not in whose else "have"
    why = ", ".join(text for text, _ in causes) or "the scheduler gives no reason"
    return Explanation(reason=_choose_reason(causes), message=f"{whose} {verb} no place: {why}")


def _read_nodes(message: str) -> list[tuple[str, Reason]]:
    """Return the causes in a message of the scheduler, each with its reason."""
    match = _NODES.search(message)
    if match is None:
        text = quote(message)
        is_volume = "persistentvolumeclaim" in message.lower()
        return [(text, Reason.VOLUME if is_volume else Reason.CAPACITY)] if text else []
    why = _AFTER_NODES.split(match["why"], maxsplit=1)[0]
    return [_read_node_count(int(count), words) for count, words in _NODE_COUNT.findall(why)]


def _read_node_count(count: int, words: str) -> tuple[str, Reason]:
    noun = "node" if count == 1 else "nodes"
    for pattern, one, several, reason in _NODE_WORDS:
        if match := pattern.search(words):
            what = next((text for text in match.groupdict().values() if text), "")
            verb = (one if count == 1 else several).format(what=what)
            return f"{count} {noun} {verb}", reason
    return f"{count} {noun}: {quote(words.removeprefix('node(s) '))}", Reason.CAPACITY


def _choose_reason(causes: Iterable[tuple[str, Reason]]) -> Reason:
    """Return the reason of several: the first one that passes by itself, else the first one."""
    reasons = [reason for _, reason in causes]
    order = (Reason.CAPACITY, Reason.DRAINED, Reason.VOLUME, Reason.NO_SUCH_NODE)
    return next((reason for reason in order if reason in reasons), Reason.CAPACITY)


def describe_pull(message: str) -> str:
    """Return the cause in a kubelet's message about an image that it cannot pull."""
    text = _OWN_PORT.sub(r"\1->", _PULL_NOISE.sub("", message))
    return quote(text) or "the node gives no reason"


def describe_start(message: str) -> str:
    """Return the cause in a container runtime's message about a container that cannot start."""
    cause = quote(_START_NOISE.sub("", message).removesuffix(": unknown"))
    advice = next((advice for words, advice in _START_ADVICE.items() if words in cause), "")
    return f"{cause or 'the container runtime gives no reason'}{advice}"


_START_ADVICE: Final = {
    "exec format error": (
        "; the node has another CPU architecture than the server: let the job run on nodes of the "
        "server's architecture only"
    ),
    "permission denied": "; check that the shared claim is not mounted with noexec",
    "no such file or directory": (
        "; check that the node mounts the same claim as the server, whose `spool` must be the "
        "folder of `claim`"
    ),
}


def describe_refusal(message: str) -> str:
    """Return the API's sentence about an object that it refused, the same for every try."""
    return quote(_POD_NAME.sub("", message))


def describe_pods(pods: Iterable[PodFacts], facts: KubernetesFacts) -> str:
    """Name the replicas of pods."""
    return join_names([facts.task_name(pod) for pod in pods])


def describe_state(facts: KubernetesFacts) -> str:
    """Describe what is left of an attempt of which no process can run."""
    jobset = facts.jobset
    if jobset is None:
        return f"the JobSet {facts.name} does not exist any more"
    condition = jobset.terminal
    if condition is None:
        return f"the pods of the JobSet {facts.name} are gone"
    if jobset.has("Completed"):
        return f"the JobSet {facts.name} has completed"
    words = f"{condition.reason}: {quote(condition.message)}"
    return f"the JobSet {facts.name} has failed ({words}{_describe_failed_container(facts)})"


def _describe_failed_container(facts: KubernetesFacts) -> str:
    """Describe the first container that failed by itself; empty if none did.

    A controller of the cluster has deleted the other pods of a JobSet that has finished.
    """
    pods = (pod for pod in facts.pods if not pod.is_deleting)
    ends = ((pod, c) for pod in pods for c in pod.containers if c.exit_code not in {None, 0})
    for pod, container in ends:
        where = f"the container {container.name} of {facts.task_name(pod)}"
        return f"; {where} ended with exit code {container.exit_code}, {container.ended}"
    return ""


def inspect_command(kind: str, facts: KubernetesFacts, name: str) -> str:
    """Return the command that shows an object to an administrator."""
    namespace = f" -n {facts.jobset.namespace}" if facts.jobset and facts.jobset.namespace else ""
    return f"kubectl{namespace} describe {kind} {name}"
