"""Checks what the cluster must have before a job: JobSet, namespace, permissions, claim, queues.

The API refuses the objects of a job by these troubles too, but one object at a time, and often only
after minutes.  The check sends requests that change nothing, so it may run at any time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import NOT_FOUND, ApiRefused
from trainshed.engines.kubernetes.dry_run import find_unknown_field
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.permissions import PERMISSIONS, Permission

#: The versions of Kueue's API that the engine reads, the newest first.
KUEUE_VERSIONS: Final = ("v1beta2", "v1beta1")
_INSTALL_JOBSET: Final = "install JobSet 0.8 or newer in the cluster (https://jobset.sigs.k8s.io)"
_LOST: Final = "Lost"


@dataclass(frozen=True, slots=True)
class DeniedVerbs:
    """The verbs of one permission that the account of the server does not have."""

    permission: Permission
    verbs: tuple[str, ...]

    def describe(self, namespace: str) -> str:
        """Name the rule that is missing, and the Role or ClusterRole that needs it."""
        kind = self.permission.role_kind
        where = "" if self.permission.is_of_cluster else f" of the namespace {namespace}"
        return f"the {kind}{where} lacks the rule {self.permission.describe_rule(self.verbs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the API answered to one check.  The pure part of this module judges these facts."""

    namespace: str
    claim: str
    jobset_versions: tuple[str, ...] | None = None
    """The served versions of JobSet's group; empty: there is no such group; None: not known."""
    unknown_field: str = ""
    """A field of every job's JobSet that the API does not know; empty: it knows all fields."""
    kueue_versions: tuple[str, ...] | None = None
    """The served versions of Kueue's group; empty: there is no such group; None: not known."""
    has_namespace: bool | None = None
    """None: the account may not read the namespace."""
    denied: tuple[DeniedVerbs, ...] = ()
    claim_phase: str | None = None
    """The phase of the claim; empty: the claim does not exist; None: it may not be read."""
    missing_queues: tuple[str, ...] = ()
    """The LocalQueues of the settings that the namespace does not have."""


def explain_trouble(facts: ClusterFacts) -> str:
    """Explain why no job can run on the cluster, with what helps; empty: no reason is known."""
    return next(filter(None, (find(facts) for find in _TROUBLES)), "")


def explain_denied(facts: ClusterFacts) -> str:
    """Name the needed rules that Roles lack; empty: they have all of them."""
    rules = [row.describe(facts.namespace) for row in facts.denied if row.permission.is_needed]
    if not rules:
        return ""
    return (
        f"the account of the server has too few permissions: {'; '.join(rules)}; let an "
        "administrator add it"
    )


def explain_jobset(facts: ClusterFacts) -> str:
    """Explain why the API accepts no JobSets of the engine's version; empty: it does."""
    if facts.jobset_versions is None:
        return ""
    if not facts.jobset_versions:
        return f"the cluster does not serve the kind JobSet ({paths.JOBSET}); {_INSTALL_JOBSET}"
    if paths.JOBSET_VERSION in facts.jobset_versions:
        return _explain_unknown_field(facts.unknown_field)
    served = ", ".join(facts.jobset_versions)
    return (
        f"the cluster serves the kind JobSet in the version {served}, and Trainshed needs "
        f"{paths.JOBSET}/{paths.JOBSET_VERSION}; {_INSTALL_JOBSET}"
    )


def _explain_unknown_field(field: str) -> str:
    if not field:
        return ""
    return (
        f"the cluster's JobSet is too old: it does not know the field {field}, which the JobSet of "
        f"a job has; {_INSTALL_JOBSET}"
    )


def explain_namespace(facts: ClusterFacts) -> str:
    """Explain that the namespace does not exist; empty: it does, or cannot be read."""
    if facts.has_namespace is not False:
        return ""
    return (
        f"the cluster has no namespace {facts.namespace}; create it, or correct `namespace` in the "
        "[[engine]] table"
    )


def explain_claim(facts: ClusterFacts) -> str:
    """Explain why pods cannot mount the claim; empty: they can, or the claim cannot be read."""
    if facts.claim_phase == "":
        return (
            f"the namespace {facts.namespace} has no PersistentVolumeClaim {facts.claim}; create "
            "it, or correct `claim` in the [[engine]] table"
        )
    if facts.claim_phase == _LOST:
        return (
            f"the PersistentVolumeClaim {facts.claim} has lost its volume; let an administrator "
            "bind it to a volume again"
        )
    return ""


def explain_queues(queues: Sequence[str], namespace: str) -> str:
    """Explain that LocalQueues do not exist; empty: ``queues`` is empty."""
    if not queues:
        return ""
    noun = "LocalQueue" if len(queues) == 1 else "LocalQueues"
    return (
        f"the namespace {namespace} has no {noun} {', '.join(queues)}; create it, or correct "
        "`queue` in the [[engine]] table"
    )


_TROUBLES: Final = (explain_jobset, explain_namespace, explain_denied, explain_claim)


def read_facts(client: Client, options: KubernetesOptions, namespace: str) -> ClusterFacts:
    """Send the requests of a check.  Raises ApiAway."""
    kueue = list_versions(client, paths.KUEUE_GROUP)
    version = choose_kueue_version(kueue or ())
    may_read = ReadableKinds(client, namespace)
    jobset = list_versions(client, paths.JOBSET_GROUP)
    return ClusterFacts(
        namespace=namespace,
        claim=options.claim,
        jobset_versions=jobset,
        unknown_field=find_unknown_field(client, options, namespace) if jobset else "",
        kueue_versions=kueue,
        has_namespace=may_read.exists(paths.namespace(namespace)),
        denied=tuple(list_denied(client, namespace, has_kueue=bool(kueue))),
        claim_phase=may_read.claim_phase(options.claim),
        missing_queues=tuple(
            queue
            for queue in list_queues(options)
            if kueue and may_read.exists(paths.local_queue(namespace, version, queue)) is False
        ),
    )


def list_versions(client: Client, group: str) -> tuple[str, ...] | None:
    """List the versions of a group that the API serves, the preferred one first; none: no group.

    ``group`` is the path of the group.  None: the API refuses the request.  Raises ApiAway.
    """
    try:
        answer = client.get(group)
    except ApiRefused as refusal:
        return () if refusal.reason == NOT_FOUND else None
    return tuple(str(row.get("version")) for row in answer.get("versions") or ())


def choose_kueue_version(versions: Iterable[str]) -> str:
    """Return the version of Kueue's API to use: the newest that the engine reads."""
    served = set(versions)
    return next((name for name in KUEUE_VERSIONS if name in served), KUEUE_VERSIONS[0])


def list_queues(options: KubernetesOptions) -> list[str]:
    """List the LocalQueues that the settings name."""
    queues = [options.queue] if isinstance(options.queue, str) else options.queue.values()
    return sorted({queue for queue in queues if queue})


def list_denied(client: Client, namespace: str, *, has_kueue: bool) -> Iterator[DeniedVerbs]:
    """Yield the permissions that the account lacks; those of Kueue only where Kueue is.

    Raises ApiAway.
    """
    for permission in PERMISSIONS:
        if permission.group == paths.KUEUE and not has_kueue:
            continue
        verbs = [verb for verb in permission.verbs if not _may(client, namespace, permission, verb)]
        if verbs:
            yield DeniedVerbs(permission, tuple(verbs))


def _may(client: Client, namespace: str, permission: Permission, verb: str) -> bool:
    """Return whether the account may use a verb; an API without reviews says nothing: True.

    Raises ApiAway.
    """
    attributes = {"group": permission.group, "resource": permission.resource, "verb": verb}
    if not permission.is_of_cluster:
        attributes["namespace"] = namespace
    if permission.resource == "namespaces":
        attributes["name"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = client.post(paths.ACCESS_REVIEWS, review)
    except ApiRefused:
        return True
    return bool((answer.get("status") or {}).get("allowed"))


class ReadableKinds:
    """Reads objects that may not exist, with an account that may not be allowed to read them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def exists(self, path: str) -> bool | None:
        """Return whether an object exists; None: the account may not read it.  Raises ApiAway."""
        obj = self._read(path)
        return None if obj is None else bool(obj)

    def claim_phase(self, claim: str) -> str | None:
        """Return the phase of a claim; empty: no such claim; None: the account may not read it."""
        obj = self._read(paths.claim(self._namespace, claim))
        if not obj:
            return None if obj is None else ""
        return str((obj.get("status") or {}).get("phase") or "Pending")

    def _read(self, path: str) -> Mapping[str, Any] | None:
        """Return an object; empty: it does not exist; None: the API refuses the request."""
        try:
            return self._client.get(path)
        except ApiRefused as refusal:
            return {} if refusal.reason == NOT_FOUND else None
