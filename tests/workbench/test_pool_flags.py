import pytest

from trainshed.model.faults import UsageFault
from trainshed.workbench.pool_flags import parse_pool, parse_pools, spread, wire_pool, worder

CONTAINER = "machine-type=n1-standard-4,container-image-uri=img"


def test_a_container_pool_is_what_gcloud_would_send():
    text = f"{CONTAINER},replica-count=4,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=8"
    assert wire_pool(parse_pool(text), []) == {
        "machineSpec": {
            "machineType": "n1-standard-4",
            "acceleratorType": "NVIDIA_TESLA_V100",
            "acceleratorCount": 8,
        },
        "replicaCount": 4,
        "containerSpec": {"imageUri": "img"},
    }


def test_counts_are_one_where_nobody_gives_them():
    pool = wire_pool(parse_pool(f"{CONTAINER},accelerator-type=NVIDIA_TESLA_T4"), [])
    assert pool["replicaCount"] == 1
    assert pool["machineSpec"]["acceleratorCount"] == 1


def test_a_python_pool_gets_the_common_packages():
    text = "machine-type=n1-standard-4,executor-image-uri=exe,python-module=trainer.task"
    assert wire_pool(parse_pool(text), ["gs://bucket/a.tar.gz"])["pythonPackageSpec"] == {
        "executorImageUri": "exe",
        "pythonModule": "trainer.task",
        "packageUris": ["gs://bucket/a.tar.gz"],
    }


def test_an_empty_flag_skips_its_pool_and_keeps_the_position():
    assert [wire_pool(pool, []) for pool in parse_pools([CONTAINER, "", CONTAINER])][1] == {}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([""], "the first --worker-pool-spec cannot be empty"),
        (["replica-count=1"], "lacks the key machine-type"),
        ([f"{CONTAINER},accelerator-count=2"], "accelerator-count without accelerator-type"),
        ([f"{CONTAINER},gpus=2"], "has no key gpus; it has accelerator-count"),
        ([CONTAINER, f"{CONTAINER},script=a.py"], "script is only for the first pool"),
        (["n1-standard-4"], "must be KEY=VALUE pairs"),
    ],
)
def test_what_gcloud_refuses_is_refused(texts, message):
    with pytest.raises(UsageFault, match=message):
        parse_pools(texts)


def test_a_replica_count_is_a_number():
    with pytest.raises(UsageFault, match="replica-count must be a whole number"):
        wire_pool(parse_pool(f"{CONTAINER},replica-count=two"), [])


def test_args_go_to_every_pool_that_has_a_program_and_to_no_other():
    pools = [{"containerSpec": {"imageUri": "a", "args": ["old"]}}, {}, {"pythonPackageSpec": {}}]
    assert spread(pools, "args", ["x"], "containerSpec", "pythonPackageSpec") == [
        {"containerSpec": {"imageUri": "a", "args": ["x"]}},
        {},
        {"pythonPackageSpec": {"args": ["x"]}},
    ]
    assert pools[0]["containerSpec"]["args"] == ["old"]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        (
            "workerPoolSpecs[1].machineSpec.acceleratorCount",
            "--worker-pool-spec[1] accelerator-count",
        ),
        (
            "jobSpec.workerPoolSpecs[0].machineSpec.machineType",
            "--worker-pool-spec[0] machine-type",
        ),
        ("workerPoolSpecs[2].containerSpec.command", "--command"),
        ("workerPoolSpecs[2]", "--worker-pool-spec[2]"),
        ("scheduling.timeout", "scheduling.timeout"),
    ],
)
def test_a_field_of_a_pool_that_came_by_flag_is_called_by_the_flag(path, word):
    assert worder(pools_by_flag=True)(path) == word
    assert worder(pools_by_flag=False)(path) == path
