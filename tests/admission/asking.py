"""Jobs of the model in few words, and what admission says of them."""

import datetime as dt

from trainshed.admission import check, resolve
from trainshed.admission.context import Scope
from trainshed.catalog import load
from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role

TODAY = dt.date(2026, 8, 22)
T4 = "NVIDIA_TESLA_T4"


def gpus(count, kind=T4):
    return Accelerator(type=kind, count=count)


def group(machine="n1-standard-8", role=Role.PRIMARY, **fields):
    return ReplicaGroup(role=role, machine_type=machine, **fields)


def ml(*groups, tier=ScaleTier.CUSTOM, region="us-central1", **fields):
    return JobSpec(dialect=Dialect.ML_V1, scale_tier=tier, region=region, groups=groups, **fields)


def vertex(*groups, region="us-central1", **fields):
    return JobSpec(dialect=Dialect.AIPLATFORM_V1, region=region, groups=groups, **fields)


def ask(spec, edition=None, *, scope=Scope.MACHINES, today=TODAY, requested_day=None):
    edition = edition or ("2020-08" if spec.dialect is Dialect.ML_V1 else "2026-08")
    return resolve(spec, load(edition), scope=scope, today=today, requested_day=requested_day)


def rules(spec, edition=None, **options):
    return [violation.rule for violation in check(ask(spec, edition, **options))]
