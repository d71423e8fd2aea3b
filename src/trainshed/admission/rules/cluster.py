"""Rules about the shape of the cluster: which groups there are and how many replicas."""

from collections.abc import Iterator

from trainshed.admission.context import RuleContext, broken
from trainshed.catalog.software import is_reduction_server
from trainshed.model.faults import Field, Violation
from trainshed.model.job import ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role


def only_custom_takes_machines(context: RuleContext) -> Iterator[Violation]:
    """Machine types, counts and accelerators need the tier CUSTOM (scale_tiers.toml)."""
    submitted = context.submitted_spec
    if submitted.dialect is not Dialect.ML_V1 or submitted.scale_tier is ScaleTier.CUSTOM:
        return
    tier = submitted.scale_tier.value if submitted.scale_tier else "absent, which means BASIC"
    for group in submitted.groups:
        for field in _machine_fields(group):
            yield broken(
                group,
                field,
                "counts-need-custom",
                f"machine types, counts and accelerators need scaleTier CUSTOM; it is {tier}",
                "scaleTier: CUSTOM, or leave the field out",
            )


def _machine_fields(group: ReplicaGroup) -> Iterator[Field]:
    if group.role is not Role.PRIMARY and group.count:
        yield Field.COUNT
    if group.machine_type:
        yield Field.MACHINE_TYPE
    if group.accelerator:
        yield Field.ACCELERATOR


def has_a_primary(context: RuleContext) -> Iterator[Violation]:
    """A job has exactly one primary replica."""
    submitted, primary = context.submitted_spec, context.spec.group(Role.PRIMARY)
    if submitted.dialect is Dialect.ML_V1:
        if submitted.scale_tier is ScaleTier.CUSTOM and not (primary and primary.machine_type):
            message = "scaleTier CUSTOM needs a machine type for the master"
            accepted = "masterType: n1-standard-4, for example"
            yield broken(Role.PRIMARY, Field.MACHINE_TYPE, "master-type-missing", message, accepted)
    elif primary is None:
        message = "the first worker pool must have the primary replica, and is empty"
        accepted = "workerPoolSpecs[0] with a machineSpec and replicaCount 1"
        yield broken(None, Field.GROUPS, "worker-pools", message, accepted)
    elif primary.count != 1:
        yield broken(
            primary,
            Field.COUNT,
            "primary-replica-count",
            f"the first worker pool must have exactly one replica, got {primary.count}",
            "1; more replicas go into workerPoolSpecs[1]",
        )


def counts_are_positive(context: RuleContext) -> Iterator[Violation]:
    """A requested group has at least one replica."""
    for group in context.spec.groups:
        if group.count < 1 and group.role is not Role.PRIMARY:
            message = f"a replica count must be a whole number from 1, got {group.count}"
            yield broken(group, Field.COUNT, "replica-count", message, _accepted_counts(context))


def _accepted_counts(context: RuleContext) -> str:
    is_ml = context.submitted_spec.dialect is Dialect.ML_V1
    return f"1 or more, or {'no such field' if is_ml else 'an empty pool'}"


def evaluators_exist(context: RuleContext) -> Iterator[Violation]:
    """AI Platform Training has evaluators since 2020-04-09 (rn2020)."""
    evaluator = context.spec.group(Role.EVALUATOR)
    if evaluator and not context.catalog.edition.evaluators:
        edition = context.catalog.edition.id
        message = f"edition {edition} has no evaluators; Google added them on 2020-04-09"
        accepted = "edition 2020-05 or later"
        yield broken(evaluator, Field.GROUP, "not-in-that-version", message, accepted)


def categories_do_not_mix(context: RuleContext) -> Iterator[Violation]:
    """All names are Compute Engine's or all are legacy, like the master's (machine_types.toml)."""
    primary = context.spec.group(Role.PRIMARY)
    master = context.machine(primary) if primary else None
    if context.submitted_spec.dialect is not Dialect.ML_V1 or not master or master.tpu:
        return
    for group in context.spec.groups:
        machine = context.machine(group)
        if machine and not machine.tpu and machine.is_legacy != master.is_legacy:
            usable = machine.equivalent in context.catalog.machines
            yield broken(
                group,
                Field.MACHINE_TYPE,
                "mixed-categories",
                f"{machine.name} is a {_category(machine.is_legacy)} type and the master's "
                f"{master.name} a {_category(master.is_legacy)} type; a job has only one kind",
                f"a {_category(master.is_legacy)} type"
                + (f", such as {machine.equivalent}" if usable else ""),
            )


def _category(is_legacy: bool) -> str:  # noqa: FBT001  # a two-valued word
    return "legacy" if is_legacy else "Compute Engine"


def tpu_jobs_are_single(context: RuleContext) -> Iterator[Violation]:
    """A Vertex TPU job has one worker pool with one replica (reduction_server.toml, cc2026)."""
    if context.submitted_spec.dialect is Dialect.ML_V1:
        return
    groups = context.spec.groups
    tpu = [g for g in groups if (m := context.machine(g)) and m.tpu]
    if tpu and (len(groups) > 1 or groups[0].count > 1):
        message = "a TPU job has one worker pool with one replica"
        yield broken(tpu[0], Field.GROUP, "tpu-single-replica", message, "workerPoolSpecs[0] alone")


def reducers_are_in_pool_two(context: RuleContext) -> Iterator[Violation]:
    """The Reduction Server's image belongs to the third worker pool."""
    for group in context.spec.groups:
        image = group.program.image_uri if group.program else None
        if image and is_reduction_server(image) and group.role is not Role.REDUCER:
            message = "the Reduction Server runs in the third worker pool only"
            accepted = "workerPoolSpecs[2]; put {} in a pool that is skipped"
            yield broken(group, Field.IMAGE_URI, "reduction-pool", message, accepted)
