"""The value from which the variables of every replica of an attempt are derived.

With one value, every module of variables has the same form: a function of ``(context, role,
index)`` that returns its variables, or none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainshed.launch.devices import is_tpu_worker
from trainshed.launch.site import LaunchSite
from trainshed.model.job import JobSpec, Program, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.model.study import TrialSpec

#: Dialects in which a group without a program runs the primary's (docs/sources/vertex.md 7.1).
INHERITS_PROGRAM = frozenset({Dialect.ML_V1})

_ORDER = {role: position for position, role in enumerate(Role)}

Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One attempt: the spec without skipped groups, and the place where it will run."""

    spec: JobSpec
    job_id: str
    site: LaunchSite

    @property
    def trial(self) -> TrialSpec | None:
        """Return the trial that the job runs; None if the job runs no trial."""
        return self.spec.trial

    @property
    def is_distributed(self) -> bool:
        """Whether there is more than one replica, in all groups together."""
        return self.spec.replica_count > 1

    def members(self, role: Role) -> list[str]:
        """List the ``host:port`` of each replica of a role, in index order."""
        group = self.spec.group(role)
        return [self.site.addresses[role, i].text for i in range(group.count if group else 0)]


def in_role_order(spec: JobSpec) -> JobSpec:
    """Drop groups without replicas and TPU workers, and sort the others by role."""
    groups = [
        group
        for group in spec.groups
        if group.count > 0 and not is_tpu_worker(group.role, group.machine_type)
    ]
    groups.sort(key=lambda group: _ORDER[group.role])
    return spec if groups == list(spec.groups) else replace(spec, groups=tuple(groups))


def primary_program(spec: JobSpec) -> Program | None:
    """Return the primary's program, which decides the kind of the job; None if it has none."""
    primary = spec.group(Role.PRIMARY)
    return primary.program if primary else None


def program_of(spec: JobSpec, group: ReplicaGroup) -> Program | None:
    """Return the program of a group: its own, or the primary's if the dialect inherits it."""
    if group.program is None and spec.dialect in INHERITS_PROGRAM:
        return primary_program(spec)
    return group.program
