"""Names and labels of the objects of an attempt, and the attempt that a name or a label means.

JobSet, Secret and Service of an attempt have one name.  The API accepts a second object of a name
only after the first is gone, so a repeated submission finds the object of the first.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.roles import Role

INSTALLATION: Final = "trainshed.dev/installation"
JOB: Final = "trainshed.dev/job"
ATTEMPT: Final = "trainshed.dev/attempt"
ROLE: Final = "trainshed.dev/role"
#: Annotations that tell users of the cluster which job an object belongs to.
JOB_ID: Final = "trainshed.dev/job-id"
PROJECT: Final = "trainshed.dev/project"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
#: The value of ``MANAGED_BY``.
TRAINSHED: Final = "trainshed"

#: The replicated Job of each role.
JOB_NAMES: Final[Mapping[Role, str]] = {
    Role.PRIMARY: "primary",
    Role.WORKER: "worker",
    Role.PARAMETER_SERVER: "ps",
    Role.REDUCER: "reducer",
    Role.EVALUATOR: "evaluator",
}
#: The longest accepted name of a JobSet.  The webhook of JobSet accepts 43 characters with every
#: role and at least ten replicas of it.
NAME_MAX: Final = 43
#: The longest name of a pod before the six characters that its Job adds.
_POD_NAME_MAX: Final = 57
_INSTALLATION: Final = re.compile(r"[a-z0-9]{1,32}")
_NAME: Final = re.compile(r"ts-([a-z0-9]{1,32})-([0-9]+)-([0-9]+)(?:[-.].*)?")
#: A uid has at most 19 digits; ``int`` limits the digits that it reads.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def check_installation(installation: str) -> None:
    """Raise UsageFault if names of objects cannot contain this id of an installation."""
    if not _INSTALLATION.fullmatch(installation):
        raise UsageFault(
            "the installation of a Kubernetes engine must be 1 to 32 characters of a-z and 0-9, "
            f"got {installation!r}"
        )


def name_of(installation: str, key: AttemptKey) -> str:
    """Return the name of the objects of an attempt.

    Raises UsageFault for a bad installation, EngineFault for a name that is too long.
    """
    check_installation(installation)
    name = f"ts-{installation}-{key.uid}-{key.attempt}"
    if len(name) > NAME_MAX:
        raise EngineFault(
            f"the name of a JobSet must have at most {NAME_MAX} characters, got {len(name)} in "
            f"{name}; use a server whose installation id is shorter by {len(name) - NAME_MAX}"
        )
    return name


def check_replica_names(name: str, role: Role, count: int) -> None:
    """Raise EngineFault if a JobSet of this name cannot name so many pods of a role."""
    last = f"{name}-{JOB_NAMES[role]}-0-{count - 1}"
    if len(last) > _POD_NAME_MAX:
        digits = len(str(count - 1)) - (len(last) - _POD_NAME_MAX)
        raise EngineFault(
            f"a job must have at most {10**digits} replicas of the role {role.value}, got {count}: "
            f"names of pods such as {last} must have at most {_POD_NAME_MAX} characters"
        )


def host_of(name: str, role: Role, index: int) -> str:
    """Return the host name of a replica's pod in the JobSet of a name."""
    return f"{name}-{JOB_NAMES[role]}-0-{index}"


def dns_name_of(name: str, role: Role, index: int) -> str:
    """Return the name by which pods of the same namespace find a replica's pod."""
    return f"{host_of(name, role, index)}.{name}"


def labels_of(installation: str, key: AttemptKey, role: Role | None = None) -> dict[str, str]:
    """Return the labels of an object of an attempt; ``role`` is set for Jobs and pods."""
    labels = {
        MANAGED_BY: TRAINSHED,
        INSTALLATION: installation,
        JOB: str(key.uid),
        ATTEMPT: str(key.attempt),
    }
    return labels if role is None else {**labels, ROLE: JOB_NAMES[role]}


def selector_of(installation: str, key: AttemptKey | None = None) -> str:
    """Return the label selector of all objects of an installation, or of one attempt."""
    labels = {INSTALLATION: installation}
    if key is not None:
        labels |= {JOB: str(key.uid), ATTEMPT: str(key.attempt)}
    return ",".join(f"{name}={value}" for name, value in labels.items())


def key_of(labels: Mapping[str, Any], installation: str) -> AttemptKey | None:
    """Return the attempt that an object's labels name; None: it is of no attempt of ours."""
    if labels.get(INSTALLATION) != installation:
        return None
    return _parse_key(labels.get(JOB), labels.get(ATTEMPT))


def key_of_name(name: str, installation: str) -> AttemptKey | None:
    """Return the attempt of a JobSet, or of a Job or a pod of it, by name; None: of no attempt.

    Events name their object and do not have its labels.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] != installation:
        return None
    return _parse_key(match[2], match[3])


def role_of(labels: Mapping[str, Any]) -> Role | None:
    """Return the role in the labels of a Job or a pod; None: without a role of ours."""
    return next((role for role, name in JOB_NAMES.items() if labels.get(ROLE) == name), None)


def _parse_key(uid: Any, attempt: Any) -> AttemptKey | None:
    numbers = [text for text in (uid, attempt) if isinstance(text, str) and _NUMBER.fullmatch(text)]
    return AttemptKey(int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None  # noqa: PLR2004
