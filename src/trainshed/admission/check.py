"""Checks a job against every rule: shape, machines, places, limits, studies, programs.

No rule stops another one: a refusal lists all violations.  They are in the order in which a person
would name them.
"""

from datetime import date

from trainshed.admission.context import Rule, RuleContext, Scope
from trainshed.admission.defaults import expand
from trainshed.admission.rules import (
    accelerators,
    cluster,
    directories,
    job,
    machines,
    names,
    parameter_values,
    parameters,
    reduction,
    regions,
    software,
    study,
    study_ending,
    study_priors,
)
from trainshed.catalog.catalog import Catalog
from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect

RULES: tuple[Rule, ...] = (
    job.job_id_is_well_formed,
    job.display_name_is_short,
    names.names_hide_nothing,
    job.labels_are_well_formed,
    cluster.only_custom_takes_machines,
    cluster.has_a_primary,
    cluster.counts_are_positive,
    cluster.evaluators_exist,
    cluster.categories_do_not_mix,
    machines.machine_types_exist,
    accelerators.accelerators_fit,
    machines.disks_fit,
    cluster.tpu_jobs_are_single,
    cluster.reducers_are_in_pool_two,
    reduction.reduction_server_fits,
    regions.region_exists,
    regions.one_zone_has_all,
    regions.region_has_all,
    job.strategy_fits,
    job.limits_are_possible,
    study.study_has_metrics,
    study.study_safety_is_possible,
    parameters.study_has_parameters,
    parameter_values.study_values_are_possible,
    parameters.study_conditions_can_be_met,
    study.study_algorithm_fits,
    study.study_trials_are_possible,
    study.study_stopping_fits,
    study.study_stopping_label_fits,
    study_priors.study_prior_labels_fit,
    study_ending.study_ending_is_possible,
    directories.job_dir_is_a_path,
    software.programs_are_whole,
    software.modules_are_named,
    software.image_uris_have_no_scheme,
    software.env_is_well_formed,
)


def resolve(
    spec: JobSpec, catalog: Catalog, *, scope: Scope, today: date, requested_day: date | None = None
) -> RuleContext:
    """Return the context in which rules check a job: its spec, expanded, and the catalog and date.

    ``requested_day`` is the caller's date.  Without it, rules check a Vertex job against ``today``,
    and an AI Platform job against the date of its edition: later dates belong to another edition.
    """
    default_day = catalog.edition.date if spec.dialect is Dialect.ML_V1 else today
    day = requested_day or default_day
    expanded = expand(spec, catalog)
    return RuleContext(submitted_spec=spec, spec=expanded, catalog=catalog, today=day, scope=scope)


def check(context: RuleContext) -> tuple[Violation, ...]:
    """Return all violations of a job's spec, except those of quota (``admission.quota``)."""
    return tuple(violation for rule in RULES for violation in rule(context))
