"""Rules beyond the given cases: each promise with an example, built from the model."""

import datetime as dt

import pytest

from admission.asking import T4, ask, gpus, group, ml, rules, vertex
from trainshed.admission import check, equipped, quota
from trainshed.admission.context import Scope
from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import (
    Accelerator,
    Disk,
    Program,
    ProgramKind,
    ScaleTier,
    Scheduling,
)
from trainshed.model.roles import Role


def test_a_refusal_lists_everything_that_is_wrong():
    spec = ml(
        group("n1-standard-32", accelerator=gpus(3)),
        group("n1-standard-9", Role.WORKER, count=2),
        group(None, Role.PARAMETER_SERVER, count=1),
        region="mars",
    )
    broken = rules(spec)
    assert {"accelerator-count", "unknown-machine-type", "machine-type-missing"} <= set(broken)
    assert "region-unknown" in broken


def test_the_printed_sentence_of_the_guide():
    spec = ml(group("n1-standard-32", accelerator=gpus(2, "NVIDIA_TESLA_V100")))
    [violation] = check(ask(spec))
    assert violation.field == FieldPath(Field.ACCELERATOR_COUNT, Role.PRIMARY)
    assert violation.message == (
        "n1-standard-32 needs 4 or 8 NVIDIA_TESLA_V100; 2 carry at most 24 vCPU of its 32"
    )
    assert violation.accepted == "4 or 8"


def test_both_shortages_of_a_machine_are_named():
    broken = rules(ml(group("n1-standard-96", accelerator=gpus(4, "NVIDIA_TESLA_P100"))))
    assert broken == ["not-enough-vcpus", "not-enough-memory"]


def test_where_no_count_fits_other_machines_are_named():
    [violation, _] = check(
        ask(ml(group("n1-standard-96", accelerator=gpus(8, "NVIDIA_TESLA_K80"))))
    )
    assert "no count of NVIDIA_TESLA_K80 fits n1-standard-96" in violation.message
    assert "n1-standard-32" in violation.accepted


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((group(None),), ["master-type-missing"]),
        ((), ["master-type-missing"]),
        ((group(), group(None, Role.WORKER, count=2)), ["machine-type-missing"]),
        ((group(), group("standard", Role.WORKER, count=2)), ["mixed-categories"]),
        ((group("standard"), group("n1-standard-4", Role.EVALUATOR)), ["mixed-categories"]),
        ((group("standard_gpu"), group("large_model", Role.WORKER, count=2)), []),
        ((group("standard_gpu", accelerator=gpus(1)),), ["accelerator-on-legacy"]),
        ((group("standard"), group("cloud_tpu", Role.WORKER)), []),
        (
            (group(), group("cloud_tpu", Role.WORKER, accelerator=gpus(8, "TPU_V3"))),
            ["gpu-not-in-region"],
        ),
        ((group("a2-highgpu-4g"),), ["accelerator-missing"]),
        ((group("e2-standard-4"),), ["unknown-machine-type"]),
        ((group(accelerator=Accelerator(count=2)),), ["accelerator-type-missing"]),
        ((group(accelerator=Accelerator(type=T4)),), ["accelerator-count"]),
        ((group(accelerator=gpus(-1)),), ["accelerator-count"]),
        ((group(accelerator=gpus(1, "nvidia-tesla-t4")),), ["unknown-accelerator"]),
        ((group(accelerator=gpus(8, "TPU_V2")),), ["accelerator-not-attachable"]),
        ((group(), group(role=Role.WORKER, count=-2)), ["replica-count"]),
        ((group(disk=Disk(type="hyperdisk-balanced")),), ["boot-disk-type"]),
    ],
)
def test_ml_clusters(groups, expected):
    region = "asia-east1" if expected == ["gpu-not-in-region"] else "us-central1"
    assert rules(ml(*groups, region=region)) == expected


def test_an_absent_tier_is_basic_and_takes_no_machines():
    spec = ml(group("n1-standard-8"), tier=None)
    [violation] = check(ask(spec))
    assert violation.rule == "counts-need-custom"
    assert "BASIC" in violation.message


@pytest.mark.parametrize("tier", [t for t in ScaleTier if t is not ScaleTier.CUSTOM])
@pytest.mark.parametrize("edition", ["2018-08", "2020-05", "2020-08"])
def test_every_tier_is_valid_in_every_edition(tier, edition):
    assert rules(ml(tier=tier), edition) == []


def test_the_oldest_edition_has_neither_evaluators_nor_compute_engine_names():
    spec = ml(group("standard"), group("n1-standard-4", Role.EVALUATOR))
    assert rules(spec, "2018-08") == ["not-in-that-version", "not-in-that-version"]


def test_a_job_without_a_region_is_judged_by_its_machines_alone():
    assert rules(ml(group(accelerator=gpus(1)), region=None)) == []


def test_a_type_that_the_region_lacks_is_the_regions_fault_not_the_zones():
    spec = ml(
        group(accelerator=gpus(1, "NVIDIA_TESLA_V100")),
        group(role=Role.WORKER, accelerator=gpus(1, "NVIDIA_TESLA_P4")),
        region="us-west2",
    )
    assert rules(spec) == ["gpu-not-in-region"]


def test_a_region_without_the_gpu_is_the_field_to_change_also_for_a_tier():
    [violation] = check(ask(ml(tier=ScaleTier.BASIC_GPU, region="us-west2")))
    assert violation.rule == "gpu-not-in-region"
    assert violation.field == FieldPath(Field.REGION)


def test_a_reducer_that_brings_a_gpu_is_told_so():
    spec = vertex(
        group("g2-standard-8", accelerator=gpus(1, "NVIDIA_L4")),
        group("g2-standard-8", Role.REDUCER, count=2),
    )
    assert "reducer-with-gpu" in rules(spec)


def test_a_refused_zone_mix_says_where_it_would_be_possible():
    spec = ml(
        group(accelerator=gpus(1)),
        group(role=Role.WORKER, accelerator=gpus(1, "NVIDIA_TESLA_P100")),
        group(role=Role.PARAMETER_SERVER, accelerator=gpus(1, "NVIDIA_TESLA_K80")),
    )
    [violation] = check(ask(spec))
    assert violation.rule == "no-single-zone"
    assert "us-west1" in violation.accepted
    assert "us-east1" in violation.accepted


REDUCER = "europe-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def program(image, kind=ProgramKind.CONTAINER, **fields):
    return Program(kind=kind, image_uri=image, **fields)


def reduction(worker="n1-highmem-96", count=16, image="custom", accelerator=None):
    device = accelerator or gpus(8, "NVIDIA_TESLA_V100")
    return vertex(
        group(worker, accelerator=device, program=program(image)),
        group(worker, Role.WORKER, count=4, accelerator=device, program=program(image)),
        group("n1-highcpu-16", Role.REDUCER, count=count, program=program(REDUCER)),
    )


@pytest.mark.parametrize(
    ("image", "ok"),
    [
        ("us-docker.pkg.dev/vertex-ai/training/tf-gpu.2-3:latest", True),
        ("us-docker.pkg.dev/vertex-ai/training/tf-gpu.2-17.py310:latest", True),
        ("us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest", False),
        ("us-docker.pkg.dev/vertex-ai/training/tf-gpu.1-15:latest", False),
        ("asia-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-4:latest", True),
        ("us-docker.pkg.dev/vertex-ai/training/xgboost-gpu.2-1:latest", False),
        ("example.com/team/vertex-ai-like/tf-gpu.1-0:latest", True),
    ],
)
def test_only_images_with_a_reduction_client_take_part(image, ok):
    broken = rules(reduction(image=image))
    assert ("reduction-framework-version" not in broken) == ok


def test_too_few_reducers_are_told_how_many_would_do():
    [violation] = check(ask(reduction(count=10)))
    assert violation.rule == "reducer-bandwidth"
    assert violation.field == FieldPath(Field.COUNT, Role.REDUCER)
    assert violation.accepted == "16 or more"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (vertex(), ["worker-pools"]),
        (vertex(group(count=3)), ["primary-replica-count"]),
        (vertex(group("complex_model_m")), ["unknown-machine-type"]),
        (vertex(group("g2-standard-8", accelerator=gpus(1))), ["accelerator-type-fixed"]),
        (vertex(group("ct5lp-hightpu-4t")), ["tpu-topology"]),
        (vertex(group("ct5lp-hightpu-4t", tpu_topology="2x4")), []),
        (
            vertex(group("ct5lp-hightpu-4t", tpu_topology="2x4"), group(role=Role.WORKER)),
            ["tpu-single-replica"],
        ),
        (vertex(group("n1-standard-4", tpu_topology="2x2")), ["tpu-topology"]),
        (vertex(group("cloud-tpu")), ["accelerator-missing"]),
        (vertex(group("cloud-tpu", accelerator=gpus(64, "TPU_V2")), region="europe-west4"), []),
        (vertex(group("cloud-tpu", accelerator=gpus(64, "TPU_V3"))), ["gpu-not-in-region"]),
        (vertex(group("cloud-tpu", accelerator=gpus(40, "TPU_V2"))), ["accelerator-count"]),
        (vertex(group(disk=Disk(size_gb=64001))), ["boot-disk-size"]),
        (vertex(group(disk=Disk(size_gb=100, type="floppy"))), ["boot-disk-type"]),
        (vertex(group(accelerator=Accelerator(type=T4))), ["accelerator-count"]),
        (vertex(group(accelerator=Accelerator(count=1))), ["accelerator-type-missing"]),
        (vertex(group(accelerator=gpus(1)), region="africa-south1"), ["region-without-gpus"]),
        (vertex(group(), region="africa-south1"), []),
        (vertex(group(program=program(REDUCER))), ["reduction-pool"]),
        (
            vertex(group(accelerator=gpus(1)), scheduling=Scheduling(strategy="FLEX_START")),
            ["flex-start"],
        ),
        (
            vertex(
                group("cloud-tpu", accelerator=gpus(32, "TPU_V3")),
                region="europe-west4",
                scheduling=Scheduling(strategy="SPOT"),
            ),
            ["spot"],
        ),
    ],
)
def test_vertex_clusters(spec, expected):
    assert rules(spec) == expected


def test_flex_start_wants_the_same_machines_everywhere():
    a100 = "NVIDIA_TESLA_A100"
    spec = vertex(
        group("a2-highgpu-1g", accelerator=gpus(1, a100)),
        group("a2-highgpu-2g", Role.WORKER, accelerator=gpus(2, a100)),
        scheduling=Scheduling(strategy="FLEX_START"),
    )
    assert rules(spec) == ["flex-start"]


RUNTIME = {"kind": ProgramKind.PYTHON_PACKAGE, "image": None}


@pytest.mark.parametrize(
    ("fields", "edition", "expected"),
    [
        ({"runtime_version": "2.11", "python_version": "3.7"}, "2020-08", []),
        ({"runtime_version": "2.11"}, "2020-08", []),
        ({"runtime_version": "2.11", "python_version": "2.7"}, "2020-08", ["python-version"]),
        ({"runtime_version": "1.15"}, "2020-05", []),
        ({"runtime_version": "1.4"}, "2018-08", []),
        ({"runtime_version": "1.4", "python_version": "3.5"}, "2020-05", ["runtime-retired"]),
        ({"runtime_version": "1.3", "python_version": "2.7"}, "2020-08", ["unknown-runtime"]),
        ({"runtime_version": "2.1", "python_version": "3.7"}, "2018-08", ["not-in-that-version"]),
        ({"runtime_version": "2.5", "python_version": "3.7"}, "2018-08", ["not-in-that-version"]),
        ({"runtime_version": "2.2", "python_version": "3.7"}, "2020-05", ["not-in-that-version"]),
        ({"runtime_version": "2.1", "python_version": "3.7"}, "2020-05", []),
        ({"runtime_version": "1.1", "python_version": "2.7"}, "2018-08", []),
        ({}, "2020-08", ["runtime-xor-image"]),
        (
            {
                "runtime_version": "2.1",
                "python_version": "3.7",
                "package_uris": ("gs://bb/x",) * 101,
            },
            "2020-08",
            ["package-uris"],
        ),
    ],
)
def test_runtime_versions(fields, edition, expected):
    machine = "standard" if edition == "2018-08" else "n1-standard-4"
    spec = ml(group(machine, program=program(**RUNTIME, **fields)))
    assert rules(spec, edition, scope=Scope.ALL) == expected
    assert rules(spec, edition, scope=Scope.MACHINES) == []


@pytest.mark.parametrize(
    ("runtime", "day", "expected"),
    [
        ("1.9", None, ["runtime-retired"]),
        ("1.9", dt.date(2020, 3, 17), ["runtime-retired"]),
        ("1.9", dt.date(2020, 3, 16), []),
        ("1.10", None, []),
    ],
)
def test_a_runtime_version_is_blocked_from_a_day_on(runtime, day, expected):
    spec = ml(group(program=program(**RUNTIME, runtime_version=runtime)))
    assert rules(spec, scope=Scope.ALL, requested_day=day) == expected


@pytest.mark.parametrize("tier", [ScaleTier.CUSTOM, ScaleTier.BASIC_GPU, ScaleTier.STANDARD_1])
@pytest.mark.parametrize(
    ("runtime", "python", "expected"),
    [
        ("1.2", None, "2.7"),
        ("1.14", None, "2.7"),
        ("1.15", None, "2.7"),
        ("2.1", None, "3.7"),
        ("2.11", None, "3.7"),
        ("1.14", "3.5", "3.5"),
        ("9.9", None, None),
        (None, None, None),
    ],
)
def test_a_runtime_version_brings_google_s_default_python(tier, runtime, python, expected):
    submitted = program(**RUNTIME, runtime_version=runtime, python_version=python)
    machine = "n1-standard-4" if tier is ScaleTier.CUSTOM else None
    context = ask(ml(group(machine, program=submitted), tier=tier), scope=Scope.ALL)
    versions = {group.program.python_version for group in context.spec.groups if group.program}
    assert versions == {expected}
    assert context.submitted_spec.groups[0].program == submitted


@pytest.mark.parametrize(
    ("vertex_program", "expected"),
    [
        (None, ["container-xor-python"]),
        (program(None), ["image-missing"]),
        (program("x", ProgramKind.PYTHON_PACKAGE), ["python-module", "package-uris"]),
        (program("x", ProgramKind.PYTHON_PACKAGE, module="m", package_uris=("gs://bb/p",)), []),
    ],
)
def test_vertex_programs(vertex_program, expected):
    assert rules(vertex(group(program=vertex_program)), scope=Scope.ALL) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"job_id": "fine_1"}, []),
        ({"job_id": "1st"}, ["job-id"]),
        ({"job_id": "a/b"}, ["job-id"]),
        ({"labels": {"team": "a", "ünïcode-1": ""}}, []),
        ({"labels": {"Team": "a"}}, ["labels"]),
        ({"labels": {"t": "x" * 64}}, ["labels"]),
        ({"labels": {f"k{i}": "" for i in range(65)}}, ["labels"]),
        ({"labels": {"trainshed-network": "replica"}}, []),
        ({"labels": {"trainshed-network": "job"}}, []),
        ({"labels": {"trainshed-network": "host"}}, ["network-label"]),
        ({"labels": {"": "x"}}, ["labels"]),
        ({"scheduling": Scheduling(waiting_s_max=1799)}, ["waiting-time"]),
        ({"scheduling": Scheduling(waiting_s_max=1800, priority=1000)}, []),
        ({"scheduling": Scheduling(priority=1001)}, ["priority"]),
        ({"scheduling": Scheduling(running_s_max=-1)}, ["running-time"]),
    ],
)
def test_the_job_as_a_whole(fields, expected):
    assert rules(ml(group(), **fields)) == expected


def test_quota_is_an_answer_of_its_own():
    context = ask(vertex(group("n1-standard-32", accelerator=gpus(8, "NVIDIA_TESLA_V100"))))
    assert check(context) == ()
    [over] = quota.check(context)
    assert over.rule == "quota"
    assert "Number of V100 GPUs for training" in over.accepted


def test_quota_counts_all_replicas_and_all_families():
    spec = vertex(
        group("n1-standard-8", accelerator=gpus(1)),
        group("n1-standard-8", Role.WORKER, count=2, accelerator=gpus(1)),
        region="us-west2",
    )
    messages = [v.message for v in quota.check(ask(spec))]
    assert any("3 T4" in message for message in messages)
    assert any("24 vCPU exceed the default of 20" in message for message in messages)


def test_a_legacy_gpu_machine_is_equipped_with_what_it_brings():
    spec = equipped(ask(ml(group("complex_model_m_gpu"), group("large_model", Role.WORKER))))
    assert spec.groups[0].accelerator == gpus(4, "NVIDIA_TESLA_K80")
    assert spec.groups[1].accelerator is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"display_name": "x" * 128, "labels": {"a": "x" * 64}}, []),
        ({"display_name": "x" * 129}, ["display-name"]),
        ({"display_name": "größer, 東京, \U0001f468\u200d\U0001f469"}, []),
        ({"display_name": "a\x1b[31m"}, ["hidden-characters"]),
        ({"display_name": "two\nlines"}, ["hidden-characters"]),
        ({"display_name": "a\u202eb"}, ["hidden-characters"]),
        ({"labels": {"a": "x" * 65}}, ["labels"]),
        ({"labels": {"trainshed-network": ""}}, ["network-label"]),
    ],
)
def test_a_vertex_job_has_limits_of_its_own(fields, expected):
    assert rules(vertex(group(), **fields)) == expected


def test_an_empty_machine_type_is_a_missing_one():
    assert rules(vertex(group(""))) == ["machine-type-missing"]


def test_too_many_packages_of_a_pool_are_refused():
    many = program("x", ProgramKind.PYTHON_PACKAGE, module="m", package_uris=("gs://bb/p",) * 101)
    assert rules(vertex(group(program=many)), scope=Scope.ALL) == ["package-uris"]
