"""Each replica gets devices of one type that may serve it, or nobody gets any."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.support import python_replica
from trainshed.engines.local.devices import find
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.leases import choose, describe_request, serves
from trainshed.engines.local.machine import accelerator_of
from trainshed.model.roles import Role

T4, V100, A100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_V100", "NVIDIA_TESLA_A100"
NAMES = {T4: "Tesla T4", V100: "Tesla V100-SXM2-16GB", A100: "NVIDIA A100-SXM4-40GB"}


def make_gpus(kind, *numbers):
    return [GpuDevice(uuid=f"GPU-{kind}-{n}", name=NAMES[kind]) for n in numbers]


def wanting(count, kind=None):
    return python_replica(Role.WORKER, 0, "", gpu_count=count, gpu_type=kind)


machines = st.lists(st.sampled_from(sorted(NAMES)), max_size=6).map(
    lambda kinds: [device for n, kind in enumerate(kinds) for device in make_gpus(kind, n)]
)
asking = st.lists(
    st.builds(wanting, st.integers(0, 3), st.sampled_from([*sorted(NAMES), None])), max_size=4
)
aliases = st.dictionaries(st.sampled_from(sorted(NAMES)), st.sampled_from([*sorted(NAMES), "any"]))


def is_possible(replicas, devices, stand_ins):
    """By trying every choice of types."""
    there = Counter(map(accelerator_of, devices))
    one_of = {accelerator_of(device): device for device in devices}
    wants = [replica for replica in replicas if replica.gpu_count]
    for kinds in product(there, repeat=len(wants)):
        used = Counter()
        for kind, replica in zip(kinds, wants, strict=True):
            used[kind] += replica.gpu_count
        fits = all(map(serves, map(one_of.get, kinds), wants, [stand_ins] * len(wants)))
        if fits and used <= there:
            return True
    return False


@given(asking, machines, aliases)
def test_everybody_is_served_exactly_when_that_is_possible(replicas, devices, stand_ins):
    shares = choose(replicas, devices, stand_ins)
    assert (shares is not None) == is_possible(replicas, devices, stand_ins)
    if shares is None:
        return
    assigned = [device for share in shares for device in share]
    assert len(set(assigned)) == len(assigned)
    for replica, share in zip(replicas, shares, strict=True):
        assert len(share) == replica.gpu_count
        assert len(set(map(accelerator_of, share))) <= 1
        assert all(serves(device, replica, stand_ins) for device in share)


def test_a_replica_s_own_type_comes_before_those_that_stand_in_for_it():
    devices = [*make_gpus(V100, 1, 2, 3), *make_gpus(T4, 4)]
    assert choose([wanting(1, T4)], devices, {T4: "any"}) == [make_gpus(T4, 4)]
    assert choose([wanting(2, T4)], devices, {T4: "any"}) == [make_gpus(V100, 1, 2)]
    assert choose([wanting(2, T4)], devices, {T4: A100}) is None


def test_whoever_takes_any_leaves_the_only_one_of_a_type_to_whom_it_is_named():
    devices = [*make_gpus(A100, 1), *make_gpus(T4, 2)]
    assert choose([wanting(1), wanting(1, A100)], devices, {}) == [
        make_gpus(T4, 2),
        make_gpus(A100, 1),
    ]


@pytest.mark.parametrize("kind", [*NAMES, "NVIDIA_H100_MEGA_80GB", "TPU_V3", None])
def test_fake_devices_serve_every_type(kind):
    (device,) = find.fake_devices(1)
    assert choose([wanting(1, kind)], [device], {}) == [[device]]


def test_what_is_asked_is_said_by_type():
    replicas = [wanting(4, T4), wanting(0), wanting(4, T4), wanting(1)]
    assert describe_request(replicas) == f"8 {T4}, 1 GPU"
