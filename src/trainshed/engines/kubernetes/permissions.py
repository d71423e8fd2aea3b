"""The verbs of the API that the engine uses: exactly these, for the start check and for the Role.

Reviews of the account's own permissions and the discovery of groups are not in the list: the roles
``system:basic-user`` and ``system:discovery`` give them to every account.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from trainshed.engines.kubernetes.paths import JOBSET, KUEUE

_CORE: Final = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """The verbs that the engine uses of one resource."""

    group: str
    """The group of the API; empty: the core group."""
    resource: str
    """The plural of the kind, as in a Role."""
    verbs: tuple[str, ...]
    purpose: str
    """What the engine cannot do without the permission."""
    is_needed: bool = True
    """False: without the permission the engine says less, and runs jobs."""
    is_of_cluster: bool = False
    """Whether the objects have no namespace, so that only a ClusterRole permits the verbs."""

    def compose_rule(self, verbs: Collection[str] = ()) -> dict[str, list[str]]:
        """Return the rule of a Role that permits these verbs; none named: all of them."""
        return {
            "apiGroups": [self.group],
            "resources": [self.resource],
            "verbs": list(verbs or self.verbs),
        }

    def describe_rule(self, verbs: Collection[str] = ()) -> str:
        """Return the rule as one line of a Role in YAML."""
        group, resource = f'"{self.group}"', f'"{self.resource}"'
        words = ", ".join(f'"{verb}"' for verb in verbs or self.verbs)
        return f"- {{apiGroups: [{group}], resources: [{resource}], verbs: [{words}]}}"

    @property
    def role_kind(self) -> str:
        """The kind of the object that has the rule."""
        return "ClusterRole" if self.is_of_cluster else "Role"


PERMISSIONS: Final = (
    Permission(
        JOBSET,
        "jobsets",
        ("create", "delete", "get", "list", "watch"),
        "start, observe and end attempts",
    ),
    Permission(
        _CORE, "secrets", ("create", "delete", "patch"), "give pods the secret of their attempt"
    ),
    Permission(_CORE, "pods", ("list", "watch"), "observe the replicas of attempts"),
    Permission(_CORE, "events", ("list", "watch"), "say why replicas do not start"),
    Permission(
        _CORE,
        "persistentvolumeclaims",
        ("get",),
        "check at the start that the claim exists and is bound",
        is_needed=False,
    ),
    Permission(
        _CORE,
        "namespaces",
        ("get",),
        "check at the start that the namespace exists",
        is_needed=False,
    ),
    Permission(
        KUEUE,
        "localqueues",
        ("get",),
        "check at the start that the queues of the settings exist",
        is_needed=False,
    ),
    Permission(
        KUEUE, "workloads", ("list", "watch"), "say why a queue holds a job", is_needed=False
    ),
    Permission(
        _CORE,
        "nodes",
        ("list", "watch"),
        "list the nodes, read their GPUs and notice a removed node",
        is_needed=False,
        is_of_cluster=True,
    ),
)


def compose_rules(
    permissions: Iterable[Permission] = PERMISSIONS, *, is_of_cluster: bool = False
) -> list[dict[str, list[str]]]:
    """Return the rules of the Role, or of the ClusterRole, that permit what the engine does."""
    return [
        permission.compose_rule()
        for permission in permissions
        if permission.is_of_cluster is is_of_cluster
    ]
