"""What the states of nodes mean."""

import pytest

from trainshed.engines.slurm import parse
from trainshed.engines.slurm.nodes import ClusterState, fleet, is_silent
from trainshed.model.resources import FleetPolicy, NodeState

READY, DRAINED = NodeState.READY, NodeState.DRAINED


@pytest.mark.parametrize(
    ("words", "state", "silent"),
    [
        ("IDLE", READY, False),
        ("MIXED+PLANNED", READY, False),
        ("IDLE+DRAIN", DRAINED, False),
        ("DOWN*", DRAINED, True),
        ("ALLOCATED+NOT_RESPONDING", DRAINED, True),
        ("IDLE*", DRAINED, True),
        # cloud nodes: Slurm boots one that is off when a job needs it, and it is silent until then
        ("IDLE+CLOUD+POWERED_DOWN", READY, False),
        ("IDLE+CLOUD+POWERING_DOWN", READY, False),
        ("IDLE+CLOUD+NOT_RESPONDING+POWERING_DOWN", READY, False),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", READY, False),
        ("ALLOCATED+CLOUD+POWERING_UP", READY, False),
        ("IDLE~", READY, False),
        ("ALLOCATED*#", READY, False),
        ("ALLOCATED+NOT_RESPONDING+REBOOT_ISSUED", READY, False),
        ("DOWN+CLOUD+POWERED_DOWN", DRAINED, False),
        ("IDLE+CLOUD+DRAIN+POWERED_DOWN", DRAINED, False),
    ],
)
def test_a_node_that_slurm_can_boot_is_available_and_not_unreachable(words, state, silent):
    (node,) = parse.nodes(f"NodeName=n1 CPUTot=4 RealMemory=4096 State={words} Partitions=main")
    (shown,) = fleet(ClusterState((node,)), FleetPolicy.EXACT)
    assert (shown.state, is_silent(node)) == (state, silent)
