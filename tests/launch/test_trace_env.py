"""Programs get the span of their attempt, unless the job sets one, and none without traces."""

from dataclasses import replace

from launch.builders import plan_of, vertex_spec
from trainshed.launch.variables import TRACEPARENT
from trainshed.model.roles import Role

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SPEC = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 1})


def parents(spec, **site):
    return {
        replica.role: replica.env.get(TRACEPARENT) for replica in plan_of(spec, **site).replicas
    }


def test_replicas_that_train_get_the_span_and_reducers_do_not():
    expected = {Role.PRIMARY: PARENT, Role.WORKER: PARENT, Role.REDUCER: None}
    assert parents(SPEC, traceparent=PARENT) == expected


def test_the_jobs_own_span_wins():
    own = f"00-{'a' * 32}-{'b' * 16}-00"
    groups = tuple(
        replace(group, program=replace(group.program, env=((TRACEPARENT, own),)))
        if group.role is Role.WORKER
        else group
        for group in SPEC.groups
    )
    replica_parents = parents(replace(SPEC, groups=groups), traceparent=PARENT)
    assert (replica_parents[Role.WORKER], replica_parents[Role.PRIMARY]) == (own, PARENT)


def test_without_traces_there_is_none_and_the_servers_own_does_not_leak():
    assert set(parents(SPEC).values()) == {None}
    assert TRACEPARENT in plan_of(SPEC).unset_env
