"""The addresses of replicas, from what their wardens said."""

import pytest

from trainshed.engines.supervise.record.spec import ReplicaMarks
from trainshed.engines.warden.arrivals import Arrival, resolve_marks

MARKS = [
    ReplicaMarks(host="{a}", ports=(4000000001, 4000000002), rendezvous=4000000009),
    ReplicaMarks(host="{b}", ports=(4000000003,), rendezvous=0),
]
LOCAL, FAR = "127.0.0.1", "10.0.0.2"


@pytest.mark.parametrize(
    ("nodes", "addresses", "outside", "hosts"),
    [
        ("nn", (LOCAL, LOCAL), "10.0.0.1", (LOCAL, LOCAL)),
        ("nm", (LOCAL, FAR), "10.0.0.1", ("10.0.0.1", FAR)),
        ("nm", (LOCAL, FAR), "", (LOCAL, FAR)),
        ("nm", ("10.0.0.9", FAR), "10.0.0.1", ("10.0.0.9", FAR)),
        ("nn", ("10.0.0.9", "10.0.0.9"), "10.0.0.1", ("10.0.0.9", "10.0.0.9")),
    ],
)
def test_a_replica_s_host_is_one_that_all_others_reach(nodes, addresses, outside, hosts):
    arrivals = [
        Arrival(node, address, 7000, 7100) for node, address in zip(nodes, addresses, strict=True)
    ]
    replacements = resolve_marks(arrivals, MARKS, lambda: outside)
    assert (replacements["{a}"], replacements["{b}"]) == hosts


def look_up_nothing():
    pytest.fail("an address is looked up only for several nodes: the resolver may be slow")


def test_every_port_has_its_place_in_the_run_of_its_own_replica():
    arrivals = [Arrival("n", LOCAL, 7000, 7100), Arrival("n", LOCAL, 8000, 0)]
    replacements = resolve_marks(arrivals, MARKS, look_up_nothing)
    assert replacements == {
        "{a}": LOCAL,
        "{b}": LOCAL,
        "4000000001": "7000",
        "4000000002": "7001",
        "4000000003": "8000",
        "4000000009": "7100",
    }
