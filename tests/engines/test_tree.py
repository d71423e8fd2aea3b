"""Descendants are found, however many lie above them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.processes import tree

ROOT = 1
DEEPER_THAN_THE_STACK = 5_000


def below(parents, monkeypatch):
    """What is found where each process of 2, 3, ... has the parent that is given for it."""
    children = {}
    for child, parent in enumerate(parents, start=2):
        children.setdefault(parent, []).append(child)
    monkeypatch.setattr(tree, "children", lambda pid: children.get(pid, []))
    return list(tree.descendants(ROOT))


def test_a_chain_of_any_length_is_walked(monkeypatch):
    chain = range(1, DEEPER_THAN_THE_STACK)
    assert below(chain, monkeypatch) == [(pid, pid + 1) for pid in chain]


@given(st.lists(st.integers(1, 50), max_size=40))
def test_parents_come_before_their_children_and_all_are_found(picks):
    parents = [1 + pick % pid for pid, pick in enumerate(picks, start=1)]
    with pytest.MonkeyPatch.context() as patch:
        pairs = below(parents, patch)
    assert sorted(child for _, child in pairs) == list(range(2, len(parents) + 2))
    pids = {ROOT}
    for parent, child in pairs:
        assert parent in pids
        pids.add(child)
