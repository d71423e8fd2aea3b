"""Fills in values that the caller left out: a tier's cluster, a count of one, Python."""

from collections.abc import Iterator
from dataclasses import replace

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.software import runtimes
from trainshed.catalog.tiers import tier_groups
from trainshed.model.job import JobSpec, Program, ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role


def expand(spec: JobSpec, catalog: Catalog) -> JobSpec:
    """Return the job's spec with its exact cluster.

    A scale tier other than CUSTOM becomes its groups; they run the program that the caller gave.
    gcloud can leave the scale tier out (docs/sources/gcloud.md 3.2); Trainshed then takes
    BASIC.  A runtime version without a Python version has Google's default.
    """
    if spec.dialect is Dialect.AIPLATFORM_V1:
        return spec
    return replace(spec, groups=tuple(map(_with_python, _groups(spec, catalog))))


def _groups(spec: JobSpec, catalog: Catalog) -> Iterator[ReplicaGroup]:
    tier = spec.scale_tier or ScaleTier.BASIC
    if tier is ScaleTier.CUSTOM:
        return (group for group in spec.groups if _exists(group))
    legacy = "general" not in catalog.edition.machine_categories
    return (_with_program(group, spec) for group in tier_groups(legacy=legacy)[tier])


def _exists(group: ReplicaGroup) -> bool:
    return group.role is Role.PRIMARY or group.count != 0


def _with_program(group: ReplicaGroup, spec: JobSpec) -> ReplicaGroup:
    return replace(group, program=_program(spec, group.role))


def _with_python(group: ReplicaGroup) -> ReplicaGroup:
    program = group.program
    runtime = runtimes().get(program.runtime_version or "") if program else None
    if program is None or runtime is None or program.python_version:
        return group
    return replace(group, program=replace(program, python_version=runtime.default_python))


def _program(spec: JobSpec, role: Role) -> Program | None:
    """Return the role's own program, else the primary's (precedence in job_limits.toml)."""
    group, primary = spec.group(role), spec.group(Role.PRIMARY)
    return (group.program if group else None) or (primary.program if primary else None)
