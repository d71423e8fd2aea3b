"""How counts of accelerators are laid out on hosts: full hosts first."""

from dataclasses import replace

import pytest

from planning.test_what_ifs import HOST
from trainshed.planning.layouts import HostType, requested_layouts, usual_layouts
from trainshed.planning.plan_request import PlanRequest

ONE = replace(HOST, per_host=1)
#: A machine type that may have 1, 2, 4 or 8 accelerators; the job has one in each host.
HOST_TYPE = HostType(
    host=ONE, variants=(ONE, *(replace(HOST, per_host=count) for count in (2, 4, 8)))
)


def sizes(layouts):
    return [(layout.accelerators, layout.hosts) for layout in layouts]


@pytest.mark.parametrize(
    ("what_if", "hosts", "layouts"),
    [
        ([("gpus", (1, 2, 8, 16, 12, 3))], 4, [(1, 1), (2, 1), (8, 1), (16, 2), (12, 3), (3, 3)]),
        ([("hosts", (2, 4))], 4, [(2, 2), (4, 4)]),
        ([("gpus-per-host", (2, 8))], 4, [(8, 4), (32, 4)]),
        ([("gpus-per-host", (2, 8))], 0, [(2, 1), (8, 1)]),
        ([("gpus-per-host", (8,)), ("hosts", (1, 2))], 4, [(8, 1), (16, 2)]),
        ([], 4, []),
    ],
)
def test_a_request_fills_hosts_first(what_if, hosts, layouts):
    request = PlanRequest(what_if=what_if)
    assert sizes(requested_layouts(HOST_TYPE, request, hosts)) == layouts


def test_the_usual_counts_are_powers_of_two_up_to_twice_the_jobs():
    assert sizes(usual_layouts(HOST_TYPE, 8)) == [(1, 1), (2, 1), (4, 1), (8, 1), (16, 2)]
    eight = HostType(host=HOST, variants=(replace(HOST, per_host=4), HOST))
    assert sizes(usual_layouts(eight, 0)) == [(4, 1), (8, 1), (16, 2), (32, 4), (64, 8)]


def test_other_hosts_are_compared_at_the_next_count_that_fills_them():
    eight = HostType(host=HOST, variants=(HOST,))
    assert sizes([eight.comparable(count) for count in (1, 8, 12)]) == [(8, 1), (8, 1), (16, 2)]
    assert sizes([HOST_TYPE.comparable(3), HostType(host=HOST).comparable(2)]) == [(3, 3), (2, 1)]


def test_a_count_that_no_host_has_is_refused():
    assert HOST_TYPE.refuse(3).accepted == "1 or 2 or 4 or 8 on each host"
    assert HOST_TYPE.refuse(4) is None
    processors = HostType(host=replace(HOST, accelerator="CPU", per_host=2))
    assert processors.refuse(4).field == "gpus-per-host"
    assert processors.refuse(1) is None
    assert HostType(host=HOST).refuse(3) is None, "nothing is known of the machine type"
