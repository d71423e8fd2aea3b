"""Fills in what the caller left to the service: a tier's cluster, a count of one (R3)."""

from dataclasses import replace

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.tiers import tier_groups
from trainshed.model.job import Accelerator, JobSpec, Program, ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role


def expand(spec: JobSpec, catalog: Catalog) -> JobSpec:
    """The job with its exact cluster.

    A scale tier other than CUSTOM (and an absent one, which is BASIC: contracts/gcloud.md 3.2)
    becomes its groups; they run the program that the caller gave.  An accelerator type without a
    count means one (accelerators.toml, rules.both_fields; Vertex only).
    """
    if spec.dialect is Dialect.AIPLATFORM_V1:
        one = tuple(_one_device(group) for group in spec.groups)
        return spec if one == spec.groups else replace(spec, groups=one)
    tier = spec.scale_tier or ScaleTier.BASIC
    if tier is ScaleTier.CUSTOM:
        return replace(spec, groups=tuple(g for g in spec.groups if _exists(g)))
    legacy = "general" not in catalog.edition.machine_categories
    groups = tuple(_with_program(g, spec) for g in tier_groups(legacy=legacy)[tier])
    return replace(spec, groups=groups)


def _one_device(group: ReplicaGroup) -> ReplicaGroup:
    asked = group.accelerator
    if asked and asked.type and asked.count is None:
        return replace(group, accelerator=Accelerator(type=asked.type, count=1))
    return group


def _exists(group: ReplicaGroup) -> bool:
    return group.role is Role.PRIMARY or group.count != 0


def _with_program(group: ReplicaGroup, spec: JobSpec) -> ReplicaGroup:
    return replace(group, program=_program(spec, group.role))


def _program(spec: JobSpec, role: Role) -> Program | None:
    """The role's own program, else the primary's (precedence in job_limits.toml)."""
    own, primary = spec.group(role), spec.group(Role.PRIMARY)
    return (own.program if own else None) or (primary.program if primary else None)
