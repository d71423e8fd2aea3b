"""How placement speaks of what replicas ask for."""

import pytest

from trainshed.model.resources import Demand
from trainshed.placement.messages import of_each


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand(), "a free slot"),
        (Demand(vcpus=16), "16 vCPUs"),
        (Demand(vcpus=16, memory_gb=60.0), "16 vCPUs and 60 GB of memory"),
        (
            Demand(gpu_count=4, gpu_type="NVIDIA_TESLA_T4", vcpus=16, memory_gb=60.0),
            "4 NVIDIA_TESLA_T4, 16 vCPUs and 60 GB of memory",
        ),
    ],
)
def test_a_demand_is_said_by_what_it_has(demand, words):
    assert of_each(demand) == words
