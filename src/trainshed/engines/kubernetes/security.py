"""The security context of jobs' containers, from the table ``security`` of the configuration.

Without the table, images run as they are, also as root: images of Google's and most others need it.
"""

from dataclasses import dataclass
from typing import Any, Final

#: Values of ``seccomp`` besides paths of profiles.
SECCOMP_TYPES: Final = ("RuntimeDefault", "Unconfined")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The settings of the table ``security``; None and empty values keep the cluster's defaults."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    """Whether the cluster refuses images that run as root."""
    fs_group: int | None = None
    """The group of the pods' volumes.  The kubelet changes the files of some kinds of claims to
    this group; the launcher needs no such group."""
    supplemental_groups: tuple[int, ...] = ()
    """Further groups of the processes, besides the server's group, which shares the buckets."""
    allow_privilege_escalation: bool | None = None
    drop_capabilities: tuple[str, ...] = ()
    add_capabilities: tuple[str, ...] = ()
    seccomp: str = ""
    """One of ``SECCOMP_TYPES``, or the path of a profile below the kubelet's folder of profiles."""


#: The security context of the images.
AS_IMAGE: Final = SecuritySettings()


def compose_pod_context(settings: SecuritySettings, group: int) -> dict[str, Any]:
    """Compose the security context of a pod; ``group`` is the server's, which shares buckets."""
    groups = dict.fromkeys((group, *settings.supplemental_groups))
    context: dict[str, Any] = {"supplementalGroups": list(groups)}
    if settings.fs_group is not None:
        # without the policy, the kubelet would change every file of the claim before each start
        context |= {"fsGroup": settings.fs_group, "fsGroupChangePolicy": "OnRootMismatch"}
    return context


def compose_main_context(settings: SecuritySettings) -> dict[str, Any]:
    """Compose the security context of a replica's container, which is empty without a setting."""
    fields = {
        "runAsUser": settings.run_as_user,
        "runAsGroup": settings.run_as_group,
        "runAsNonRoot": settings.run_as_non_root,
        "allowPrivilegeEscalation": settings.allow_privilege_escalation,
        "capabilities": _compose_capabilities(settings),
        "seccompProfile": _compose_seccomp(settings.seccomp),
    }
    return {name: value for name, value in fields.items() if value is not None}


def compose_launcher_context(user: int, group: int) -> dict[str, Any]:
    """Compose the security context of a launcher, which runs as the server's user."""
    context: dict[str, Any] = {
        "runAsUser": user,
        "runAsGroup": group,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {**context, "runAsNonRoot": True} if user else context


def _compose_capabilities(settings: SecuritySettings) -> dict[str, list[str]] | None:
    lists = {"add": settings.add_capabilities, "drop": settings.drop_capabilities}
    return {name: list(words) for name, words in lists.items() if words} or None


def _compose_seccomp(profile: str) -> dict[str, str] | None:
    if not profile or profile in SECCOMP_TYPES:
        return {"type": profile} if profile else None
    return {"type": "Localhost", "localhostProfile": profile}
