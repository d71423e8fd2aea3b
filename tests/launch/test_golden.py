"""What every replica is told, for each pool shape and each way a program is delivered."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from golden import check_golden
from launch.builders import STUDY, TRIAL, container, ml_spec, package, plan_of, vertex_spec
from trainshed.model.job import Accelerator, JobSpec
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role

GOLDEN = Path(__file__).parents[1] / "golden" / "launch"
METRIC_FILE = "/var/run/hypertune/output.metrics"

#: Written at each replica even when there is only one of it.
OWN = {"TF_CONFIG.task", "CLUSTER_SPEC.task", "RANK", "JAX_PROCESS_ID", "CLOUD_ML_HP_METRIC_FILE"}

JOB_PLACES = ("CLOUD_ML_JOB", "CLUSTER_SPEC.job", "TF_CONFIG.job")

SHAPES = {
    "single": {Role.PRIMARY: 1},
    "workers": {Role.PRIMARY: 1, Role.WORKER: 2},
    "workers-ps": {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 1},
    "workers-evaluator": {Role.PRIMARY: 1, Role.WORKER: 1, Role.EVALUATOR: 1},
    "ps-only": {Role.PRIMARY: 1, Role.PARAMETER_SERVER: 2},
    "all-four": {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 2, Role.EVALUATOR: 1},
}
REDUCER_SHAPES = {
    "reducers": {Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 2},
    "reducers-evaluator": {Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 1, Role.EVALUATOR: 1},
}

Variant = Callable[..., JobSpec]

ML_VARIANTS: dict[str, Variant] = {
    "ml-package-2.11": lambda counts, **more: ml_spec(counts, package("2.11"), **more),
    "ml-package-1.15": lambda counts, **more: ml_spec(counts, package("1.15"), **more),
    "ml-package-local": lambda counts, **more: ml_spec(counts, package(None), **more),
    "ml-container": lambda counts, **more: ml_spec(counts, container(), **more),
    "ml-container-chief": lambda counts, **more: ml_spec(
        counts, container(), use_chief=True, **more
    ),
}
VERTEX_VARIANTS: dict[str, Variant] = {
    "vertex-container": lambda counts, **more: vertex_spec(counts, container(), **more),
    "vertex-package": lambda counts, **more: vertex_spec(counts, package(), **more),
}
VARIANTS = {**ML_VARIANTS, **VERTEX_VARIANTS}

CASES = [(variant, shape) for variant in VARIANTS for shape in SHAPES] + [
    (variant, shape) for variant in VERTEX_VARIANTS for shape in REDUCER_SHAPES
]


@pytest.mark.parametrize(("variant", "shape"), CASES, ids="-".join)
def test_each_replica_of_each_shape_is_told_what_google_would_tell_it(variant, shape):
    counts = {**SHAPES, **REDUCER_SHAPES}[shape]
    plan = plan_of(VARIANTS[variant](counts))
    check_golden(GOLDEN / variant / f"{shape}.json", readable(plan))


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_replica_of_a_trial_is_told_its_trial(variant):
    spec = VARIANTS[variant](SHAPES["workers"], study=STUDY)
    plan = plan_of(spec, trial=TRIAL, metric_file=METRIC_FILE)
    check_golden(GOLDEN / variant / "trial.json", readable(plan))


def test_the_whole_plan_as_dry_run_prints_it():
    gpus = Accelerator(type="NVIDIA_TESLA_T4", count=4)
    spec = vertex_spec(SHAPES["workers-evaluator"], accelerator=gpus)
    plan = plan_of(spec, cwd="/srv/trainer")
    text = json.dumps(asdict(plan), indent=1, default=lambda role: role.value)
    check_golden(GOLDEN / "whole-plan.json", f"{text}\n")


def readable(plan: LaunchPlan) -> str:
    """Write a plan with its JSON variables parsed, and what all replicas share written once."""
    environments = {replica.task_name: parsed(replica.env) for replica in plan.replicas}
    shared = shared_parts(list(environments.values()))
    value = {
        "shared": once(shared),
        "notes": plan.notes,
        "replicas": {
            replica.task_name: {
                "role": replica.role.value,
                "argv": shlex.join(replica.argv),
                "shares": " ".join(sorted(shared.keys() & environments[replica.task_name].keys())),
                "own": {
                    k: v for k, v in environments[replica.task_name].items() if k not in shared
                },
            }
            for replica in plan.replicas
        },
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def parsed(env: Mapping[str, str]) -> dict[str, Any]:
    """Parse the variables that hold JSON, and give their parts names of their own."""
    parts: dict[str, Any] = {}
    for name, text in env.items():
        value = json.loads(text) if text.startswith("{") else text
        if name in {"TF_CONFIG", "CLUSTER_SPEC"}:
            parts |= {f"{name}.{part}": content for part, content in value.items()}
        else:
            parts[name] = value
    return parts


def shared_parts(environments: list[dict[str, Any]]) -> dict[str, Any]:
    """Find what is the same on all replicas that have it, by the name of the variable or part."""
    values_of: dict[str, list[Any]] = {}
    for environment in environments:
        for name, value in environment.items():
            values_of.setdefault(name, []).append(value)
    return {
        name: values[0]
        for name, values in values_of.items()
        if name not in OWN and all(value == values[0] for value in values)
    }


def once(shared: dict[str, Any]) -> dict[str, Any]:
    """Write the job document, which has up to three places, in the first of them only."""
    places = [name for name in JOB_PLACES if name in shared]
    same = {name: f"(as {places[0]})" for name in places if shared[name] == shared[places[0]]}
    return {**shared, **same, **{name: shared[name] for name in places[:1]}}
