"""What holds for every job and for every row of the data, not only for chosen examples."""

import dataclasses
import datetime as dt
import itertools
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.admission import check, cluster_of, equipped, expand, quota, resolve
from trainshed.admission.context import Scope
from trainshed.admission.rules.reduction import sizing
from trainshed.catalog import Product, load
from trainshed.catalog.regions import snapshots
from trainshed.catalog.rows import rows, table
from trainshed.model.job import (
    Accelerator,
    Disk,
    JobSpec,
    Program,
    ProgramKind,
    ReplicaGroup,
    ScaleTier,
    Scheduling,
)
from trainshed.model.roles import Dialect, Role
from trainshed.model.rules import NAMES

DAY = dt.date(2026, 8, 22)
EDITIONS = ("2018-08", "2020-05", "2020-08", "2026-08")
OLD_GPUS = ("K80", "P4", "P100", "T4", "V100")
DIALECT = {Product.ML: Dialect.ML_V1, Product.VERTEX: Dialect.AIPLATFORM_V1}
REDUCER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
IMAGES = (None, "", "own", REDUCER, "us-docker.pkg.dev/vertex-ai/training/tf-gpu.2-2:latest")
MACHINES = (None, "", "n1-standard-9", *load("2026-08").known_machines)
DEVICES = (
    *(None, "", "ACCELERATOR_TYPE_UNSPECIFIED", "nvidia-tesla-t4", "TPU7X"),
    *load("2020-08").enum_names(),
    *load("2026-08").enum_names(),
)
REGIONS = (None, "", "global", "us-central1-a", *load("2026-08").regions)


def ask(edition, *groups, region=None, zones=None, tier=ScaleTier.CUSTOM, **job):
    catalog = load(edition, zone_snapshot=zones)
    spec = JobSpec(
        dialect=DIALECT[catalog.product], scale_tier=tier, region=region, groups=groups, **job
    )
    return resolve(spec, catalog, scope=Scope.MACHINES, today=DAY)


def master(machine, device=None, count=None, role=Role.PRIMARY):
    accelerator = Accelerator(type=device, count=count) if device else None
    return ReplicaGroup(role=role, machine_type=machine, accelerator=accelerator)


def first(context):
    return next((violation.rule for violation in check(context)), "valid")


def names_in(sentence):
    return re.findall(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+", sentence)


ANY_DEVICE = st.none() | st.builds(
    Accelerator,
    type=st.sampled_from(DEVICES),
    count=st.none() | st.integers(-1, 17) | st.sampled_from((32, 40, 64)),
)
ANY_PROGRAM = st.none() | st.builds(
    Program,
    kind=st.sampled_from(ProgramKind),
    image_uri=st.sampled_from(IMAGES),
    runtime_version=st.sampled_from((None, "", "1.3", "1.9", "1.15", "2.11")),
    python_version=st.sampled_from((None, "2.7", "3.7")),
)
ANY_GROUP = st.builds(
    ReplicaGroup,
    role=st.sampled_from(Role),
    count=st.integers(-1, 40),
    machine_type=st.sampled_from(MACHINES),
    accelerator=ANY_DEVICE,
    tpu_topology=st.sampled_from((None, None, "", "2x2", "8x8x16")),
    disk=st.none() | st.builds(Disk, size_gb=st.integers(-1, 70000)),
    program=ANY_PROGRAM,
)
ANY_JOB = st.builds(
    JobSpec,
    dialect=st.sampled_from(Dialect),
    scale_tier=st.sampled_from((None, ScaleTier.CUSTOM, *ScaleTier)),
    region=st.sampled_from(REGIONS),
    groups=st.lists(ANY_GROUP, max_size=5, unique_by=lambda group: group.role).map(tuple),
    scheduling=st.builds(
        Scheduling,
        strategy=st.sampled_from((None, "SPOT", "FLEX_START")),
        waiting_s_max=st.none() | st.integers(-1, 4000),
    ),
)
ML_EDITIONS, VERTEX_EDITION = EDITIONS[:3], EDITIONS[3]
OTHERS = {
    Product.ML: (Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR),
    Product.VERTEX: (Role.WORKER, Role.PARAMETER_SERVER, Role.REDUCER, Role.EVALUATOR),
}


@settings(max_examples=300, deadline=None)
@given(
    ANY_JOB,
    st.sampled_from(ML_EDITIONS),
    st.sampled_from((None, *snapshots())),
    st.sampled_from(Scope),
    st.dates(dt.date(2017, 1, 1), dt.date(2027, 1, 1)),
)
def test_any_job_is_answered_in_whole_sentences_of_known_rules(spec, ml_edition, zones, scope, day):
    edition = ml_edition if spec.dialect is Dialect.ML_V1 else VERTEX_EDITION
    context = resolve(spec, load(edition, zone_snapshot=zones), scope=scope, today=day)
    roles = {group.role for group in (*spec.groups, *context.spec.groups)} | {Role.PRIMARY, None}
    violations = check(context)
    for violation in (*violations, *quota.check(context)):
        assert violation.rule in NAMES
        assert violation.message
        assert violation.accepted
        assert "None" not in violation.message + violation.accepted
        assert violation.field.role in roles
    assert check(context) == violations
    assert len(cluster_of(context)) == len(equipped(context).groups)
    size = sizing(context)
    assert size is None or size.reducers_min >= 0 or size.worker_gbps < 0


@settings(max_examples=100, deadline=None)
@given(ANY_JOB, st.sampled_from(ML_EDITIONS))
def test_an_expanded_job_is_its_own_expansion(spec, ml_edition):
    edition = ml_edition if spec.dialect is Dialect.ML_V1 else VERTEX_EDITION
    once = expand(spec, load(edition))
    assert expand(once, load(edition)) == once


def fitting_devices(catalog, machine):
    if machine.is_legacy:
        return [None]
    accelerators = [
        Accelerator(type=name, count=count)
        for name in catalog.enum_names()
        for count in catalog.fitting_counts(machine, catalog.accelerator(name))
    ]
    return accelerators if machine.bundled else [None, *accelerators]


@st.composite
def sound_jobs(draw):
    """An edition, and a job of machines with accelerators that fit them: mostly accepted."""
    edition = draw(st.sampled_from(EDITIONS))
    catalog = load(edition)
    is_vertex = edition == VERTEX_EDITION
    legacy = edition == "2018-08" or (not is_vertex and draw(st.booleans()))
    machines = [m for m in catalog.machines.values() if m.is_legacy == legacy and not m.tpu]
    roles = [Role.PRIMARY, *draw(st.lists(st.sampled_from(OTHERS[catalog.product]), unique=True))]
    groups = []
    for role in roles:
        machine = draw(st.sampled_from(machines))
        groups.append(
            ReplicaGroup(
                role=role,
                count=1 if role is Role.PRIMARY else draw(st.integers(1, 30)),
                machine_type=machine.name,
                accelerator=draw(st.sampled_from(fitting_devices(catalog, machine))),
            )
        )
    region = draw(st.sampled_from((None, None, "us-central1", "us-east1")))
    assume(not check(ask(edition, *groups, region=region)))
    return edition, groups, region


@settings(max_examples=100, deadline=None)
@given(sound_jobs(), st.data())
def test_fewer_replicas_never_make_an_accepted_job_wrong(job, data):
    """Reducers excepted: there may be too few of them."""
    edition, groups, region = job
    fewer = [
        group
        if group.role is Role.REDUCER
        else dataclasses.replace(group, count=data.draw(st.integers(1, group.count)))
        for group in groups
    ]
    smaller = ask(edition, *fewer, region=region)
    assert check(smaller) == ()
    if not quota.check(ask(edition, *groups, region=region)):
        assert not quota.check(smaller)


@settings(max_examples=100, deadline=None)
@given(sound_jobs())
def test_leaving_out_a_group_never_makes_an_accepted_job_wrong(job):
    """The primary excepted: a job has one."""
    edition, groups, region = job
    for group in groups:
        if group.role is not Role.PRIMARY:
            left = [other for other in groups if other is not group]
            assert check(ask(edition, *left, region=region)) == ()


#: No region has it any more.
K80_ON_VERTEX = {"2026-08": "NVIDIA_TESLA_K80"}

CAPS = {
    row["name"]: {c["count"]: (c["max_vcpus"], c["max_memory_gb"]) for c in row["caps"]}
    for row in rows("accelerators", "accelerator")
    if row["name"] in OLD_GPUS
}


def expected_reason(row, gpu, count):
    if count in row[gpu]:
        return "valid"
    if count not in CAPS[gpu]:
        return "accelerator-count"
    short_of_cpu = row["vcpus"] > CAPS[gpu][count][0]
    return "not-enough-vcpus" if short_of_cpu else "not-enough-memory"


@pytest.mark.parametrize("edition", ["2020-05", "2020-08", "2026-08"])
@pytest.mark.parametrize("row", rows("n1_gpu_table", "row"), ids=lambda row: row["machine"])
def test_every_count_beside_a_printed_cell_is_refused_and_what_is_offered_is_accepted(edition, row):
    for gpu, count in itertools.product(OLD_GPUS, range(-1, 18)):
        if K80_ON_VERTEX.get(edition) == f"NVIDIA_TESLA_{gpu}":
            continue
        context = ask(edition, master(row["machine"], f"NVIDIA_TESLA_{gpu}", count))
        assert first(context) == expected_reason(row, gpu, count), (gpu, count)
        for violation in check(context) if row[gpu] else ():
            offered = [int(number) for number in re.findall(r"\d+", violation.accepted)]
            assert offered == row[gpu]
            for number in offered:
                again_ = ask(edition, master(row["machine"], f"NVIDIA_TESLA_{gpu}", number))
                assert check(again_) == ()


@pytest.mark.parametrize("edition", ["2020-05", "2020-08", "2026-08"])
@pytest.mark.parametrize("row", rows("n1_gpu_table", "row"), ids=lambda row: row["machine"])
def test_machine_types_offered_where_no_count_fits_are_accepted(edition, row):
    blank = [gpu for gpu in OLD_GPUS if not row[gpu]]
    for gpu, count in itertools.product(blank, range(-1, 18)):
        enum_name = f"NVIDIA_TESLA_{gpu}"
        if enum_name == K80_ON_VERTEX.get(edition):
            continue
        for violation in check(ask(edition, master(row["machine"], enum_name, count))):
            offered = names_in(violation.accepted)
            assert offered
            tried = CAPS[gpu] if violation.rule == "accelerator-count" else [count]
            for name in offered:
                questions = [ask(edition, master(name, enum_name, number)) for number in tried]
                assert not all(check(context) for context in questions), (name, violation)


@pytest.mark.parametrize("edition", ["2018-08", "2020-05", "2020-08"])
def test_equivalents_offered_for_legacy_types_are_accepted(edition):
    catalog = load(edition)
    for machine in catalog.machines.values():
        if machine.is_legacy:
            device = master(machine.name, "NVIDIA_TESLA_K80", 1)
            mixed = (master("n1-standard-4"), master(machine.name, role=Role.WORKER))
            for violation in (*check(ask(edition, device)), *check(ask(edition, *mixed))):
                for name in names_in(violation.accepted):
                    if violation.rule in {"accelerator-on-legacy", "mixed-categories"}:
                        assert check(ask(edition, master(name))) == ()


@pytest.mark.untraced
@pytest.mark.parametrize("edition", EDITIONS)
def test_exactly_the_products_own_machine_types_are_known(edition):
    product = load(edition).product.value
    for row in rows("machine_types", "machine_type"):
        verdict = first(ask(edition, master(row["name"])))
        if product not in row["products"]:
            assert verdict == "unknown-machine-type", row["name"]
        else:
            assert verdict != "unknown-machine-type", row["name"]
        if verdict == "valid" and "accelerator" in row and row["family"] != "legacy":
            pytest.fail(f"{row['name']} without its accelerators")


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("name", ["n1-standard-2", "n1-standrd-8", "e2-highcpu-8", "n2d-highmem-8"])
def test_machine_types_suggested_for_an_unknown_one_are_accepted(edition, name):
    [violation] = check(ask(edition, master(name)))
    for suggested in names_in(violation.accepted):
        if suggested != "machine-types":  # the command that lists them all
            assert first(ask(edition, master(suggested))) in {"valid", "accelerator-missing"}


@pytest.mark.untraced
@pytest.mark.parametrize("edition", ["2020-05", "2020-08"])
@pytest.mark.parametrize("zones", ["zones-2021-10-25", "zones-2022-04-09", "zones-2023-05-02"])
def test_a_mix_of_gpus_is_valid_where_the_region_lists_all_and_one_zone_has_all(edition, zones):
    document = {"2020-05": "seed003", "2020-08": "seed000"}[edition]
    printed = next(d for d in rows("regions", "doc_version") if d["id"] == document)
    types = {row["region"]: set(row["use"]) for row in rows("regions", "ml_region")}
    held = [row for row in rows("zones", "zone") if row["snapshot"] == zones]
    mixes = [mix for n in (1, 2, 3) for mix in itertools.combinations(OLD_GPUS, n)]
    names = table("regions")["vertex_training_regions"]["names"]
    for region, mix in itertools.product(names, mixes):
        in_region = region in printed["gpu_regions"] and types[region].issuperset(mix)
        met = any(row["region"] == region and set(row["types"]).issuperset(mix) for row in held)
        groups = [
            master("n1-standard-8", f"NVIDIA_TESLA_{gpu}", 1, role)
            for gpu, role in zip(mix, (Role.PRIMARY, Role.WORKER, Role.EVALUATOR), strict=False)
        ]
        verdict = first(ask(edition, *groups, region=region, zones=zones))
        assert (verdict == "valid") == (in_region and met), (region, mix)


@pytest.mark.parametrize("edition", ["2020-05", "2020-08", "2026-08"])
def test_every_region_offered_instead_of_one_without_the_gpu_is_accepted(edition):
    catalog = load(edition)
    for machine, name in itertools.product(catalog.machines.values(), catalog.enum_names()):
        counts = catalog.fitting_counts(machine, catalog.accelerator(name))
        if machine.is_legacy or not counts or name == K80_ON_VERTEX.get(edition):
            continue
        group = master(machine.name, name, counts[0])
        for violation in check(ask(edition, group, region="us-west3")):
            if violation.rule in {"region-without-gpus", "gpu-not-in-region"}:
                offered = names_in(violation.accepted)
                assert offered, name
                assert all(not check(ask(edition, group, region=place)) for place in offered)


@pytest.mark.parametrize("row", rows("vertex_images", "image"), ids=lambda row: row["path"])
def test_an_image_has_a_reduction_client_where_the_data_says_so(row):
    def pool(role, machine, device, image, count=1):
        program = Program(kind=ProgramKind.CONTAINER, image_uri=image)
        group = master(machine, device, 8 if device else None, role)
        return dataclasses.replace(group, count=count, program=program)

    image = f"europe-docker.pkg.dev/{row['path']}"
    context = ask(
        "2026-08",
        pool(Role.PRIMARY, "n1-highmem-96", "NVIDIA_TESLA_V100", image),
        pool(Role.WORKER, "n1-highmem-96", "NVIDIA_TESLA_V100", image),
        pool(Role.REDUCER, "n1-highcpu-16", None, REDUCER, 7),
    )
    has_client = row["reduction_server"] == "yes"
    assert first(context) == ("valid" if has_client else "reduction-framework-version")
