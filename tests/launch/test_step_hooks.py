"""A job that is there to be measured has its steps seen; no other has."""

from dataclasses import replace

import pytest

from launch.builders import plan_of, vertex_spec
from trainshed.model.labels import MEASURE, OFF, PLAN_LABEL
from trainshed.model.roles import Role
from trainshed.model.trainer_contract import STEPS


@pytest.mark.parametrize(("value", "is_seen"), [(MEASURE, True), (OFF, False), ("", False)])
def test_a_label_switches_the_hooks_on_in_all_that_train(value, is_seen):
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 2, Role.REDUCER: 1})
    plan = plan_of(replace(spec, labels={PLAN_LABEL: value}))
    hooked = {replica.role for replica in plan.replicas if replica.env.get(STEPS) == "hooks"}
    assert hooked == ({Role.PRIMARY, Role.WORKER} if is_seen else set())
