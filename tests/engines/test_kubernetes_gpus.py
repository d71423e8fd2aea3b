"""GPUs by accelerator type: rows of the settings, rows by labels of nodes, and refusals."""

import pytest

from trainshed.engines.kubernetes.gpus import (
    GpuRow,
    choose_row,
    count_gpus,
    seed_rows,
    type_of_node,
)
from trainshed.engines.kubernetes.tolerations import Toleration
from trainshed.model.faults import EngineFault

GKE, PRODUCT = "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product"
T4, A100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_A100"


def make_node(count="4", **labels):
    """A node as the API has it; labels by the names of the constants above."""
    keys = {"gke": GKE, "product": PRODUCT}
    return {
        "metadata": {"labels": {keys.get(key, key): text for key, text in labels.items()}},
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": count}},
    }


@pytest.mark.parametrize(
    ("label", "value", "gpu_type"),
    [
        ("gke", "nvidia-tesla-t4", "NVIDIA_TESLA_T4"),
        ("gke", "nvidia-l4", "NVIDIA_L4"),
        ("gke", "nvidia-tesla-a100", "NVIDIA_TESLA_A100"),
        ("gke", "nvidia-a100-80gb", "NVIDIA_A100_80GB"),
        ("gke", "nvidia-h100-80gb", "NVIDIA_H100_80GB"),
        ("gke", "nvidia-h100-mega-80gb", "NVIDIA_H100_MEGA_80GB"),
        ("gke", "nvidia-h200-141gb", "NVIDIA_H200_141GB"),
        ("gke", "nvidia-b200", "NVIDIA_B200"),
        ("product", "Tesla-T4", "NVIDIA_TESLA_T4"),
        ("product", "Tesla-P4", "NVIDIA_TESLA_P4"),
        ("product", "NVIDIA-A100-SXM4-40GB", "NVIDIA_TESLA_A100"),
        ("product", "NVIDIA-A100-SXM4-80GB", "NVIDIA_A100_80GB"),
        ("product", "NVIDIA-L4", "NVIDIA_L4"),
        ("product", "NVIDIA-H100-80GB-HBM3", "NVIDIA_H100_80GB"),
        ("product", "NVIDIA-H200", "NVIDIA_H200_141GB"),
        ("product", "NVIDIA-GB200", "NVIDIA_GB200"),
    ],
)
def test_labels_of_nodes_give_rows(label, value, gpu_type):
    key = GKE if label == "gke" else PRODUCT
    assert seed_rows({}, [make_node(**{label: value})]) == {
        gpu_type: GpuRow(selector={key: (value,)})
    }


@pytest.mark.parametrize(
    "node",
    [
        make_node(product="NVIDIA-L40S"),
        make_node(product="Tesla-P40"),
        make_node(product="NVIDIA-GH200-480GB"),
        make_node(product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        make_node(product="Tesla-T4-SHARED"),
        make_node(gke="nvidia-tesla-a100", **{"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}),
        make_node(gke="nvidia-l4", **{"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}),
        make_node(count="0", product="Tesla-T4"),
        make_node(),
        {"metadata": {}, "status": {}},
        {},
    ],
)
def test_other_divided_and_absent_gpus_give_no_row(node):
    assert seed_rows({}, [node]) == {}


def test_all_names_of_a_type_are_accepted():
    nodes = [make_node(product=f"Tesla-V100-SXM2-{size}GB") for size in (32, 16, 16)]
    row = seed_rows({}, nodes)["NVIDIA_TESLA_V100"]
    assert row.selector == {PRODUCT: ("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB")}


def test_one_label_of_a_node_is_enough():
    node = make_node(gke="nvidia-tesla-t4", product="Tesla-T4")
    assert seed_rows({}, [node])[T4].selector == {GKE: ("nvidia-tesla-t4",)}


def test_rows_of_the_settings_win():
    own = GpuRow(resource="example.com/gpu")
    rows = seed_rows({T4: own}, [make_node(product="Tesla-T4"), make_node(product="NVIDIA-L4")])
    assert (rows[T4], sorted(rows)) == (own, ["NVIDIA_L4", T4])


def test_a_type_has_its_row_or_the_row_of_any_other_type():
    own, other = GpuRow(resource="a/b"), GpuRow(resource="a/c")
    assert choose_row(T4, {T4: own, "any": other}) is own
    assert choose_row(A100, {T4: own, "any": other}) is other
    assert choose_row(None, {T4: own, "any": other}) is other
    assert choose_row(None, {T4: own}) == GpuRow()


def test_a_cluster_that_is_not_known_gets_any_request():
    assert choose_row(A100, {}) == GpuRow()


def test_a_type_that_the_cluster_lacks_is_refused_with_its_types():
    with pytest.raises(EngineFault) as caught:
        choose_row(A100, {T4: GpuRow(), "NVIDIA_L4": GpuRow()})
    assert f"no {A100}; its GPUs are: NVIDIA_L4, {T4}" in str(caught.value)


def test_a_node_has_the_type_of_the_row_that_selects_it():
    rows = {"any": GpuRow(), T4: GpuRow(selector={PRODUCT: ("Tesla-T4",), "pool": ("a", "b")})}
    assert type_of_node(make_node(product="Tesla-T4", pool="b"), rows) == T4
    assert type_of_node(make_node(product="Tesla-T4", pool="c"), rows) == ""
    assert type_of_node({}, rows) == ""


def test_the_gpus_of_a_node_are_counted_by_resource():
    assert count_gpus(make_node("4")) == 4
    assert count_gpus(make_node("4"), "amd.com/gpu") == 0


def test_pods_with_gpus_accept_nodes_that_are_reserved_for_the_resource():
    row = GpuRow(resource="amd.com/gpu", tolerations=(Toleration(key="pool"),))
    assert row.all_tolerations == (
        Toleration(key="amd.com/gpu", effect="NoSchedule"),
        Toleration(key="pool"),
    )
