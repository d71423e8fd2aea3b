"""Marks stand for addresses in any text, and nothing else is taken for one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.base import ReplicaShape
from trainshed.engines.warden import marks
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role

KEY = AttemptKey(7, 1)
SHAPES = st.lists(
    st.builds(ReplicaShape, st.sampled_from(list(Role)), st.integers(0, 99), st.integers(1, 40)),
    unique_by=lambda replica: (replica.role, replica.index),
    max_size=20,
)


@given(SHAPES)
def test_every_mark_is_told_apart_and_read_back_from_texts(shape):
    addresses = marks.addresses(KEY, shape)
    ports = [
        port
        for replica in shape
        for port in (
            *range(addresses[replica.role, replica.index].port,
                   addresses[replica.role, replica.index].port + replica.ports),
            addresses[replica.role, replica.index].rendezvous_port,
        )
    ]  # fmt: skip
    assert len(set(ports)) == len(ports)
    assert all(4_000_000_000 <= port < 5_000_000_000 for port in ports)
    text = json.dumps([[address.text, address.rendezvous_port] for address in addresses.values()])
    used = marks.list_used(KEY, addresses, [text])
    for replica, mark in zip(shape, used, strict=True):
        at = addresses[replica.role, replica.index]
        assert mark.host == at.host
        assert mark.ports == tuple(range(at.port, at.port + replica.ports))
        assert mark.rendezvous == at.rendezvous_port


def test_a_replica_of_whose_ports_nobody_speaks_needs_none():
    addresses = marks.addresses(KEY, [ReplicaShape(Role.PRIMARY, 0)])
    (mark,) = marks.list_used(KEY, addresses, ["nothing here, 4999999999"])
    assert mark.ports == ()
    assert mark.rendezvous == 0


def test_only_whole_numbers_that_stand_for_something_are_replaced():
    at = marks.addresses(KEY, [ReplicaShape(Role.WORKER, 2)])[Role.WORKER, 2]
    replacements = {at.host: "10.0.0.2", str(at.port): "1234"}
    text = f'{{"a": "{at.text}", "b": {at.port}}} x{at.port}1 1{at.port} 4999999999 {{ts-host-1}}'
    assert marks.replace_marks(text, replacements) == (
        f'{{"a": "10.0.0.2:1234", "b": 1234}} x{at.port}1 1{at.port} 4999999999 {{ts-host-1}}'
    )


@pytest.mark.parametrize(
    "shape", [ReplicaShape(Role.WORKER, 10_000), ReplicaShape(Role.WORKER, 0, 100)]
)
def test_what_has_no_mark_is_refused(shape):
    with pytest.raises(ValueError, match="at most 10000 replicas, and each 1 to 99 ports"):
        marks.addresses(KEY, [shape])
