"""Cases beyond the given ones, as a table that a person can read and add to.

One line a case: edition, region, options, the cluster, the first reason expected (or ``valid``).
A group is ``role:[count] machine [DEVICE*count] [@topology]``; ``~`` is the master's machine, ``-``
none at all.  The comment above each block says which document or data file proves its verdicts;
docs/sources/catalog.md describes the documents with names such as seed000.
"""

import datetime as dt

import pytest

from trainshed.admission import check, quota, resolve
from trainshed.admission.context import Scope
from trainshed.admission.rules.reduction import sizing
from trainshed.catalog import load
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

#: Short names; any other word is the caller's own spelling.
ENUM = {name: f"NVIDIA_TESLA_{name}" for name in ("K80", "P4", "P100", "T4", "V100", "A100")} | {
    "A80": "NVIDIA_A100_80GB",
    "L4": "NVIDIA_L4",
    "H100": "NVIDIA_H100_80GB",
    "MEGA": "NVIDIA_H100_MEGA_80GB",
    "H200": "NVIDIA_H200_141GB",
    "B200": "NVIDIA_B200",
    "GB200": "NVIDIA_GB200",
    "RTX": "NVIDIA_RTX_PRO_6000",
}
ROLE = {
    "m": Role.PRIMARY,
    "w": Role.WORKER,
    "p": Role.PARAMETER_SERVER,
    "r": Role.REDUCER,
    "e": Role.EVALUATOR,
}
REDUCER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def device(word):
    kind, number = word.split("*")
    return Accelerator(type=ENUM.get(kind, kind) or None, count=int(number) if number else None)


def group(text):
    """``w:2 n1-standard-8 T4*1 @2x2``: role, count, machine, device, topology."""
    role, words = text[0], text[2:].split()
    count = int(words.pop(0)) if words[0].isdigit() else 1
    machine = words.pop(0)
    return ReplicaGroup(
        role=ROLE[role],
        count=count,
        machine_type=None if machine == "-" else machine,
        accelerator=next((device(word) for word in words if "*" in word), None),
        tpu_topology=next((word[1:] for word in words if word.startswith("@")), None),
        program=Program(
            kind=ProgramKind.CONTAINER,
            image_uri=REDUCER if role == "r" else "example.com/own:latest",
        ),
    )


def cluster(text):
    parts = [part.strip() for part in text.split("/") if part.strip()]
    master = parts[0].split()[0].removeprefix("m:") if parts else ""
    return tuple(group(part.replace("~", master)) for part in parts)


def ask(edition, region, groups, options):
    """The question about a cluster; ``options`` may name a tier, a strategy, zones and a date."""
    vertex = edition == "vertex"
    tier = options.get("tier", "CUSTOM")
    spec = JobSpec(
        dialect=Dialect.AIPLATFORM_V1 if vertex else Dialect.ML_V1,
        scale_tier=None if vertex or tier == "absent" else ScaleTier(tier),
        region=None if region == "-" else region,
        groups=groups,
        scheduling=Scheduling(strategy=options.get("strategy")),
    )
    zones = f"zones-{options['zones']}" if "zones" in options else None
    catalog = load("vertex-2026-08" if vertex else edition, zone_snapshot=zones)
    today = dt.date.fromisoformat(options.get("date", "2026-11-21"))
    return resolve(spec, catalog, scope=Scope.MACHINES, today=today)


def first(context):
    return next((violation.rule for violation in check(context)), "valid")


def lines(text):
    return [line for line in text.strip().splitlines() if line and not line.startswith("#")]


def parsed(line):
    head, groups, expected = (part.strip() for part in line.split("|"))
    edition, region, *options = head.split()
    chosen = dict(option.split("=") for option in options)
    return ask(edition, region, cluster(groups), chosen), expected


CASES = """
# seed003, seed000 and seed004: the printed examples
seed003 us-central1 | m:n1-highcpu-16 K80*4 / w:9 ~ K80*4 / p:3 n1-highmem-8 | valid
seed004 us-central1 | m:complex_model_m_gpu / w:9 ~ / p:3 large_model | valid
# seed000, seed003: n1_gpu_table.toml; the caps of accelerators.toml say what is short
seed003 us-central1 | m:n1-standard-96 V100*8 | valid
seed003 us-central1 | m:n1-standard-32 V100*2 | not-enough-vcpus
seed003 us-central1 | m:n1-standard-8 K80*3 | accelerator-count
seed000 us-central1 | m:n1-highmem-8 K80*1 | valid
seed000 us-central1 | m:n1-highmem-16 V100*1 | not-enough-vcpus
seed000 us-central1 | m:n1-highcpu-64 K80*8 | valid
seed000 us-central1 | m:n1-highmem-64 K80*8 | not-enough-memory
seed000 us-central1 | m:n1-highmem-64 P100*4 | not-enough-memory
seed000 us-central1 | m:n1-standard-64 P100*4 | not-enough-memory
seed000 us-central1 | m:n1-standard-96 T4*2 | not-enough-vcpus
seed000 us-central1 | m:n1-standard-8 / w:9 n1-standard-32 P4*1 | not-enough-vcpus
seed000 us-central1 | m:n1-standard-8 / e:~ P100*8 | accelerator-count
# seed000: the A2 rows and the A100 column; seed003 has neither
seed000 us-central1 | m:a2-megagpu-16g A100*16 | valid
seed000 us-central1 | m:a2-megagpu-16g A100*8 | accelerator-count-fixed
seed000 us-central1 | m:a2-highgpu-4g T4*4 | accelerator-type-fixed
seed000 us-central1 | m:a2-highgpu-8g | accelerator-missing
seed000 us-central1 | m:n1-standard-8 / w:2 ~ A100*2 | accelerator-not-attachable
seed003 us-central1 | m:n1-standard-8 A100*1 | not-in-that-version
seed003 us-central1 | m:n1-standard-8 / w:a2-highgpu-2g A100*2 | not-in-that-version
# seed004 has K80 and P100, legacy types only; V100 (rnmle) and evaluators (rn2020) came later
seed004 us-east1 | m:standard_p100 / w:4 complex_model_m_p100 | valid
seed004 asia-east1 | m:complex_model_l_gpu | valid
seed004 us-central1 | m:standard_v100 | not-in-that-version
seed004 us-central1 | m:n1-standard-8 | not-in-that-version
seed004 us-central1 | m:n1-standard-8 K80*1 | not-in-that-version
seed004 us-central1 | m:standard / e:~ | not-in-that-version
seed004 us-central1 | m:cloud_tpu TPU_V3*8 | not-in-that-version
seed004 europe-west4 | m:standard_p100 | region-without-gpus
seed004 us-west1 | m:standard / w:2 complex_model_m | valid
seed003 us-central1 | m:standard_v100 / w:2 complex_model_l_v100 | valid
seed003 us-central1 | m:n1-standard-4 / e:~ | valid
# machine_types.toml: category_rule, attach_allowed (gcloud)
seed000 us-central1 | m:standard_gpu / p:2 n1-highmem-8 | mixed-categories
seed000 us-central1 | m:n1-standard-4 / e:standard_p100 | mixed-categories
seed000 us-central1 | m:complex_model_m_gpu K80*4 | accelerator-on-legacy
seed000 us-central1 | m:standard / w:2 large_model T4*1 | accelerator-on-legacy
seed000 us-central1 | m:large_model_v100 / w:3 standard_gpu / p:2 standard | valid
seed000 us-central1 | m:n1-standard-4 / w:cloud_tpu TPU_V2*8 | valid
seed000 us-central1 | m:standard / w:cloud_tpu TPU_V2*8 | valid
# machine_types.toml: products; both products refuse the rest by name
seed000 us-central1 | m:n1-highcpu-8 | unknown-machine-type
seed000 us-central1 | m:e2-standard-4 | unknown-machine-type
seed000 us-central1 | m:n2-highmem-8 | unknown-machine-type
seed000 us-central1 | m:a2-ultragpu-1g A100*1 | unknown-machine-type
seed000 us-central1 | m:cloud-tpu TPU_V2*8 | unknown-machine-type
seed000 us-central1 | m:N1-STANDARD-8 | unknown-machine-type
vertex us-central1 | m:standard_gpu | unknown-machine-type
vertex us-central1 | m:cloud_tpu TPU_V2*8 | unknown-machine-type
vertex us-central1 | m:n1-standard-2 | unknown-machine-type
vertex us-central1 | m:n2-highcpu-96 | unknown-machine-type
vertex us-central1 | m:a3-edgegpu-8g H100*8 | unknown-machine-type
vertex us-central1 | m:e2-highmem-2 / w:2 n4-highcpu-80 / p:c2-standard-30 | valid
# accelerators.toml: the enums of both products, both_fields, flag_spelling
seed000 us-central1 | m:n1-standard-8 nvidia-tesla-t4*1 | unknown-accelerator
seed000 us-central1 | m:n1-standard-8 TESLA_T4*1 | unknown-accelerator
seed000 us-central1 | m:n1-standard-8 NVIDIA_A100_80GB*1 | unknown-accelerator
seed000 us-central1 | m:n1-standard-8 H100*1 | unknown-accelerator
seed000 us-central1 | m:n1-standard-8 TPU_V5_LITEPOD*1 | unknown-accelerator
seed000 us-central1 | m:n1-standard-8 *2 | accelerator-type-missing
seed000 us-central1 | m:n1-standard-8 T4* | accelerator-count
seed000 us-central1 | m:n1-standard-8 T4*-4 | accelerator-count
vertex us-central1 | m:n1-standard-8 NVIDIA_TESLA_L4*1 | unknown-accelerator
vertex us-central1 | m:n1-standard-8 TPU_V2_POD*32 | unknown-accelerator
vertex us-central1 | m:n1-standard-8 ACCELERATOR_TYPE_UNSPECIFIED*1 | accelerator-type-missing
vertex us-central1 | m:n1-standard-8 ACCELERATOR_TYPE_UNSPECIFIED*0 | valid
vertex us-central1 | m:n1-standard-8 T4* | accelerator-count
vertex us-central1 | m:n1-standard-32 T4* | accelerator-count
vertex us-central1 | m:a2-highgpu-2g A100* | accelerator-count
# scale_tiers.toml, docs/sources/gcloud.md 3.2: counts and types need CUSTOM, which needs masterType
seed000 us-central1 tier=PREMIUM_1 | m:n1-standard-8 | counts-need-custom
seed000 us-central1 tier=BASIC_GPU | m:- K80*2 | counts-need-custom
seed000 us-central1 tier=BASIC | e:n1-standard-4 | counts-need-custom
seed000 us-central1 tier=absent | m:n1-standard-8 | counts-need-custom
seed000 us-central1 tier=absent | | valid
seed000 europe-west6 tier=PREMIUM_1 | | valid
seed000 europe-north1 tier=BASIC_GPU | | region-without-gpus
seed000 europe-west4 tier=BASIC_GPU | | gpu-not-in-region
seed004 us-west1 tier=BASIC_GPU | | region-without-gpus
seed004 europe-west1 tier=BASIC_GPU | | valid
seed000 us-central1 | m:- / w:2 n1-standard-8 | master-type-missing
seed000 us-central1 | m:- T4*1 | master-type-missing
seed000 us-central1 | m:n1-standard-8 / p:2 - | machine-type-missing
# regions.toml: doc_version.gpu_regions, ml_region.use, 38 names
seed003 northamerica-northeast1 | m:n1-standard-8 P4*1 | region-without-gpus
seed003 southamerica-east1 | m:n1-standard-8 T4*1 | region-without-gpus
seed003 asia-northeast3 | m:n1-standard-8 T4*1 | valid
seed000 southamerica-east1 | m:n1-standard-8 T4*1 | valid
seed000 us-west2 | m:n1-standard-8 T4*1 | gpu-not-in-region
seed000 us-east4 | m:n1-standard-8 P4*1 | valid
seed000 us-east4 | m:standard_gpu | gpu-not-in-region
seed000 europe-west1 | m:standard_v100 | gpu-not-in-region
seed000 asia-northeast1 | m:n1-standard-8 / w:~ P100*1 | gpu-not-in-region
seed000 us-west3 | m:n1-standard-8 T4*1 | region-without-gpus
seed000 us-central1-a | m:n1-standard-8 | region-unknown
seed000 US-CENTRAL1 | m:n1-standard-8 | region-unknown
seed000 - | m:n1-standard-8 T4*1 | valid
vertex us-central2 | m:n1-standard-8 | region-unknown
vertex asia-south2 | m:a3-ultragpu-8g H200*8 | valid
vertex asia-south2 | m:g4-standard-48 RTX*1 | valid
vertex asia-south2 | m:n1-standard-8 T4*1 | gpu-not-in-region
# zones.toml: the worked intersections and their neighbours
seed000 us-central1 | m:standard_gpu / w:2 standard_p100 / p:standard_v100 | valid
seed000 us-central1 | m:n1-standard-8 T4*1 / e:~ P4*1 / w:~ P100*1 | no-single-zone
seed000 us-central1 zones=2022-04-09 | m:n1-standard-8 T4*1 / w:2 ~ P100*1 / p:~ K80*1 | valid
seed003 us-central1 zones=2023-05-02 | m:n1-standard-8 T4*1 / w:2 ~ P100*1 / p:~ K80*1 | valid
seed003 us-west1 | m:n1-standard-8 T4*1 / w:2 ~ P100*1 / p:~ K80*1 | valid
seed000 europe-west4 | m:n1-standard-8 P100*1 / w:2 ~ P4*1 | no-single-zone
seed000 europe-west4 | m:n1-standard-8 P100*1 / w:2 ~ T4*1 | no-single-zone
seed000 europe-west4 zones=2022-04-09 | m:n1-standard-8 P100*1 / w:2 ~ T4*1 | valid
seed000 europe-west4 | m:n1-standard-8 P4*1 / w:2 ~ T4*1 / p:~ V100*1 | valid
seed000 asia-east1 | m:standard_gpu / w:standard_v100 | no-single-zone
seed003 australia-southeast1 | m:n1-standard-8 P4*1 / w:~ P100*1 | region-without-gpus
seed000 us-east4 zones=2022-04-09 | m:a2-highgpu-1g A100*1 | no-single-zone
seed000 europe-west4 zones=2022-04-09 | m:a2-highgpu-1g A100*1 | valid
seed000 australia-southeast1 | m:n1-standard-8 P4*1 / w:~ P100*1 | no-single-zone
vertex us-central1 | m:a2-ultragpu-1g A80*1 / w:a4-highgpu-8g B200*8 | no-single-zone
vertex europe-west4 | m:a3-ultragpu-8g H200*8 / w:a3-highgpu-8g H100*8 | no-single-zone
vertex us-east4 | m:n1-standard-8 P4*1 / w:a2-ultragpu-1g A80*1 | valid
vertex us-east4 zones=2023-05-02 | m:g2-standard-8 L4*1 / w:a2-ultragpu-1g A80*1 | no-single-zone
vertex us-south1 | m:a3-ultragpu-8g H200*8 / w:a4-highgpu-8g B200*8 | valid
# cc2026: each machine type that brings accelerators takes exactly its own
vertex us-central1 | m:a2-ultragpu-4g A80*4 | valid
vertex us-central1 | m:a3-megagpu-8g MEGA*8 | valid
vertex us-central1 | m:a3-megagpu-8g H100*8 | accelerator-type-fixed
vertex us-central1 | m:a3-highgpu-4g H100*2 | accelerator-count-fixed
vertex us-central1 | m:a4x-highgpu-4g GB200*4 | valid
vertex us-central1 | m:g4-standard-96 RTX*2 | valid
vertex us-central1 | m:g2-standard-32 L4*1 | valid
vertex us-central1 | m:g2-standard-48 T4*4 | accelerator-type-fixed
vertex us-central1 | m:g2-standard-4 | accelerator-missing
vertex us-central1 | m:n1-standard-8 L4*1 | accelerator-not-attachable
vertex us-central1 | m:e2-standard-8 P4*1 | accelerator-not-attachable
vertex us-central1 | m:m1-ultramem-40 V100*1 | accelerator-not-attachable
# accelerators.toml: end_of_support (loc2026) and vertex_status (cc2026)
vertex us-central1 date=2026-09-14 | m:n1-standard-8 P100*1 | valid
vertex us-central1 date=2026-09-15 | m:n1-standard-8 P100*1 | accelerator-retired
vertex europe-west1 | m:n1-standard-8 / w:2 n1-standard-16 P100*4 | accelerator-retired
vertex us-west1 date=2026-08-22 | m:n1-standard-64 P100*4 | not-enough-memory
vertex us-central1 | m:n1-standard-8 K80*3 | accelerator-retired
vertex us-central1 date=2026-01-01 | m:n1-standard-8 K80*1 | accelerator-retired
vertex us-central1 | m:n1-standard-8 P4*4 | valid
seed000 us-central1 | m:n1-standard-8 P100*1 | valid
# loc2026: what each region has for training
vertex asia-northeast1 | m:a2-highgpu-1g A100*1 | gpu-not-in-region
vertex europe-west2 | m:a3-highgpu-8g H100*8 | gpu-not-in-region
vertex europe-west6 | m:g2-standard-4 L4*1 | gpu-not-in-region
vertex me-central2 | m:g2-standard-4 L4*1 | valid
vertex us-west3 | m:n1-standard-8 T4*1 | gpu-not-in-region
vertex us-west3 | m:a2-highgpu-1g A100*1 | valid
vertex us-west2 | m:a4-highgpu-8g B200*8 | valid
vertex europe-west4 | m:a4x-highgpu-4g GB200*4 | gpu-not-in-region
vertex us-east1 | m:n1-standard-8 V100*1 | valid
vertex me-central1 | m:n1-standard-8 | valid
# cc2026, job_limits.toml: TPU counts, topologies, one pool with one replica; loc2026: regions
vertex europe-west4 | m:cloud-tpu TPU_V3*8 | valid
vertex europe-west4 | m:cloud-tpu TPU_V3*32 | valid
vertex us-central1 | m:cloud-tpu TPU_V2*32 | valid
vertex us-central1 | m:cloud-tpu TPU_V2*48 | accelerator-count
vertex us-central1 | m:cloud-tpu TPU_V3*4 | accelerator-count
vertex us-west1 | m:cloud-tpu TPU_V2*8 | gpu-not-in-region
vertex us-central1 | m:n1-standard-8 TPU_V2*8 | accelerator-not-attachable
vertex us-central1 | m:cloud-tpu TPU_V2*8 / w:~ TPU_V2*8 | tpu-single-replica
vertex us-west1 | m:ct5lp-hightpu-1t @1x1 | valid
vertex europe-west4 | m:ct5lp-hightpu-4t @2x2 | gpu-not-in-region
vertex us-west1 | m:ct6e-standard-4t @2x2 | gpu-not-in-region
vertex southamerica-west1 | m:ct6e-standard-4t @2x2 | valid
vertex europe-west4 | m:tpu7x-standard-4t @2x2x1 | gpu-not-in-region
vertex us-west1 | m:ct5lp-hightpu-4t TPU_V5_LITEPOD*64 @8x8 | valid
vertex us-west1 | m:ct5lp-hightpu-4t @16x16 | valid
vertex us-west1 | m:ct5lp-hightpu-4t | tpu-topology
vertex us-central1 | m:ct6e-standard-8t @2x4 | valid
vertex us-central1 | m:ct6e-standard-1t @2x2 | tpu-topology
vertex us-central1 | m:tpu7x-standard-4t @8x8x16 | valid
vertex us-central1 | m:tpu7x-standard-4t @4x4 | tpu-topology
seed000 us-central1 | m:cloud_tpu TPU_V2*16 | accelerator-count
seed000 us-central1 | m:cloud_tpu TPU_V3*8 | valid
# seed001: the first pool is required and has one replica
vertex us-central1 | w:2 n1-standard-8 | worker-pools
vertex us-central1 | m:0 n1-standard-8 | primary-replica-count
vertex us-central1 | m:n1-standard-8 / e:2 n1-standard-4 | valid
vertex us-central1 | m:- | machine-type-missing
# seed001, bw: reducers' bandwidth, GPUs, workers (reduction_server.toml)
vertex - | m:a2-megagpu-16g A100*16 / w:7 ~ A100*16 / r:25 n1-highcpu-16 | valid
vertex - | m:a2-megagpu-16g A100*16 / w:7 ~ A100*16 / r:24 n1-highcpu-16 | reducer-bandwidth
vertex - | m:a3-highgpu-8g H100*8 / w:~ H100*8 / r:63 n1-highcpu-16 | valid
vertex - | m:a3-highgpu-8g H100*8 / w:~ H100*8 / r:62 n2-highcpu-16 | reducer-bandwidth
vertex - | m:n1-highmem-96 V100*8 / w:4 ~ V100*8 / r:15 n2-highcpu-80 | reducer-bandwidth
vertex - | m:a2-highgpu-1g A100*1 / w:~ A100*1 / r:3 e2-standard-16 | valid
vertex - | m:a2-highgpu-1g A100*1 / w:~ A100*1 / r:4 n1-standard-4 | reducer-bandwidth
vertex - | m:a2-highgpu-1g A100*1 / w:~ A100*1 / r:2 n1-highcpu-16 / e:n1-standard-8 | valid
vertex - | m:n1-standard-8 P4*1 / w:~ P4*1 / r:n1-highcpu-16 | valid
vertex - | m:n1-standard-96 T4*4 / w:n1-standard-8 / r:9 n1-highcpu-16 | reduction-needs-gpu-workers
vertex - | m:g2-standard-8 L4*1 / w:~ L4*1 / r:2 a2-highgpu-1g A100*1 | reducer-with-gpu
vertex us-central1 | m:g2-standard-8 L4*1 / w:~ L4*1 / p:2 n1-highmem-8 T4*1 | valid
# dws2026, spot2026: strategies
vertex us-central1 strategy=FLEX_START | m:n1-standard-8 T4*1 | flex-start
vertex us-central1 strategy=FLEX_START | m:n1-standard-8 | flex-start
vertex us-central1 strategy=FLEX_START | m:g4-standard-48 RTX*1 | flex-start
vertex us-central1 strategy=FLEX_START | m:a4x-highgpu-4g GB200*4 | flex-start
vertex us-central1 strategy=FLEX_START | m:a3-ultragpu-8g H200*8 / w:3 ~ H200*8 | valid
vertex us-central1 strategy=FLEX_START | m:g2-standard-8 L4*1 / w:3 g2-standard-12 L4*1 | flex-start
vertex us-central1 strategy=SPOT | m:n1-standard-8 T4*1 | valid
vertex us-central1 strategy=SPOT | m:cloud-tpu TPU_V2*8 | valid
vertex us-central1 strategy=SPOT | m:cloud-tpu TPU_V2*32 | spot
vertex us-central1 strategy=STANDARD | m:n1-standard-8 T4*1 | valid
"""


@pytest.mark.parametrize("line", lines(CASES))
def test_a_case_has_its_first_reason(line):
    context, expected = parsed(line)
    assert first(context) == expected, check(context)


# quotas.toml (quota2026; ml rows: recall): sums over pools, families, places without any
QUOTAS = """
vertex us-central1 | m:n1-standard-8 V100*2 / w:2 ~ V100*2 | within
vertex us-central1 | m:n1-standard-8 V100*2 / w:3 ~ V100*2 | over
vertex us-central1 | m:a2-highgpu-8g A100*8 | within
vertex us-central1 | m:a2-highgpu-8g A100*8 / w:a2-highgpu-1g A100*1 | over
vertex us-east1 | m:a2-highgpu-1g A100*1 | over
vertex us-west4 | m:n1-standard-4 T4*1 | over
vertex us-east4 | m:n1-standard-4 P4*1 | within
vertex us-east4 | m:n1-standard-4 P4*2 | over
vertex us-east4 | m:a3-ultragpu-8g H200*8 | within
vertex us-central1 | m:a3-ultragpu-8g H200*8 | over
vertex us-central1 | m:g2-standard-4 L4*1 | over
vertex us-central1 | m:m1-megamem-96 | over
vertex us-west2 | m:n1-standard-16 / w:e2-standard-4 | within
vertex us-west2 | m:n1-standard-16 / w:e2-standard-8 | over
vertex us-west2 | m:n1-standard-16 / w:n2-standard-16 / p:c2-standard-16 | within
vertex us-south1 | m:n4-standard-32 | over
vertex us-central1 | m:cloud-tpu TPU_V2*8 | over
vertex us-central1 | m:cloud-tpu TPU_V2*32 | over
vertex us-central1 | m:tpu7x-standard-4t @2x2x1 | over
vertex us-central1 | m:ct6e-standard-4t @2x2 | within
vertex asia-south2 | m:a3-ultragpu-8g H200*8 | within
seed000 us-central1 | m:n1-highcpu-16 T4*4 / w:9 ~ T4*4 / p:3 n1-highmem-8 | over
seed000 us-central1 | m:complex_model_l_v100 | within
seed000 us-central1 | m:complex_model_l_v100 / w:standard_v100 | over
seed000 us-central1 tier=BASIC_GPU | | within
"""


@pytest.mark.parametrize("line", lines(QUOTAS))
def test_a_valid_job_is_within_the_default_quota_or_over_it(line):
    context, expected = parsed(line)
    assert first(context) == "valid"
    assert bool(quota.check(context)) == (expected == "over")


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("m:a2-highgpu-4g A100*4 / w:2 ~ A100*4 / r:n1-highcpu-16", 5),
        ("m:g2-standard-96 L4*8 / r:n1-highcpu-16", 4),
        ("m:n1-standard-8 P4*1 / w:~ P4*1 / r:n1-highcpu-16", 1),
    ],
)
def test_the_fewest_reducers_are_the_quotient_rounded_up(text, least):
    assert sizing(ask("vertex", "us-central1", cluster(text), {})).reducers_min == least


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        ({"size_gb": 99}, "boot-disk-size"),
        ({"size_gb": 100, "type": "pd-standard"}, "valid"),
        ({"size_gb": 64000, "type": "hyperdisk-balanced"}, "valid"),
        ({"type": "pd-balanced"}, "boot-disk-type"),
    ],
)
def test_a_vertex_boot_disk_is_within_the_printed_limits(disk, expected):
    worker = ReplicaGroup(role=Role.WORKER, machine_type="n1-standard-8", disk=Disk(**disk))
    groups = (*cluster("m:n1-standard-8"), worker)
    assert first(ask("vertex", "us-central1", groups, {})) == expected
