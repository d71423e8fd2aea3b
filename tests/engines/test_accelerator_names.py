"""A GPU's name on a cluster gives the type that jobs request, and not that of a similar name."""

import pytest

from trainshed.engines.accelerator_names import find_accelerator


@pytest.mark.parametrize(
    ("word", "gpu_type"),
    [
        ("t4", "NVIDIA_TESLA_T4"),
        ("tesla_p4", "NVIDIA_TESLA_P4"),
        ("nvidia-l4", "NVIDIA_L4"),
        ("a100_80gb", "NVIDIA_A100_80GB"),
        ("h200", "NVIDIA_H200_141GB"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "NVIDIA_RTX_PRO_6000"),
        ("NVIDIA-L40S", None),
        ("a100_1g.5gb", None),  # a slice is a type of its own
        ("nvidia_h100_80gb_hbm3_1g.10gb", None),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", None),
        ("Tesla-P40", None),
        ("NVIDIA-GH200-480GB", None),
        ("mi300x", None),
        ("", None),
    ],
)
def test_the_type_of_a_name(word, gpu_type):
    assert find_accelerator(word) == gpu_type
