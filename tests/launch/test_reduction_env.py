"""What the replicas of a job with reducers are told, and how its reducers are started."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import trainshed_trainer
from launch.builders import container, ml_spec, plan_of, replica_of, vertex_spec
from trainshed.launch import reduction_env
from trainshed.launch.names import google_addresses
from trainshed.model import trainer_contract
from trainshed.model.roles import Role

COUNTS = {Role.PRIMARY: 1, Role.WORKER: 2, Role.REDUCER: 2, Role.EVALUATOR: 1}
CHOICE = ("TRAINSHED_TORCH_BACKEND", "reduction")
NOT_USED = (
    "The reducers run trainshed-reducer: of the command, args and env of their container only"
)
HOW_TO_USE = "The reducers serve workers that choose them"


def with_pool(*, counts=None, workers=(), command=(), args=(), env=()):
    """A job whose third pool has a container of its own."""
    spec = vertex_spec(counts or COUNTS, container(env=workers))
    program = container(command=command, args=args, env=env)
    return replace(
        spec,
        groups=tuple(
            replace(group, program=program) if group.role is Role.REDUCER else group
            for group in spec.groups
        ),
    )


def values_by_role(plan, name):
    return {replica.role: replica.env[name] for replica in plan.replicas if name in replica.env}


def test_those_who_take_part_know_every_reducer_in_their_order():
    plan = plan_of(with_pool())
    lists = values_by_role(plan, "TRAINSHED_REDUCERS")
    assert set(lists) == {Role.PRIMARY, Role.WORKER, Role.REDUCER}
    (list_of_all,) = set(lists.values())
    places = google_addresses(with_pool(), "digits_7")
    expected = [places[Role.REDUCER, index].text for index in range(2)]
    assert list_of_all.split(",") == expected


@pytest.mark.parametrize(
    "spec",
    [
        vertex_spec({Role.PRIMARY: 1, Role.WORKER: 2}),
        vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.PARAMETER_SERVER: 1}),
        ml_spec({Role.PRIMARY: 1, Role.PARAMETER_SERVER: 1}),
    ],
    ids=["workers", "parameter servers", "ml"],
)
def test_a_job_without_reducers_is_told_nothing_of_them(spec):
    plan = plan_of(spec)
    names = {name for replica in plan.replicas for name in replica.env}
    assert not [name for name in names if name.startswith("TRAINSHED_")]
    assert plan.notes == ()


def test_each_process_of_a_reducer_has_a_port_and_is_listed():
    spec = with_pool(env=[("TRAINSHED_REDUCER_PROCS", "3")])
    plan = plan_of(spec)
    first, second = (google_addresses(spec, "digits_7")[Role.REDUCER, i].host for i in range(2))
    addresses = plan.primary.env["TRAINSHED_REDUCERS"].split(",")
    assert addresses == [
        f"{host}:{port}" for host in (first, second) for port in (2222, 2223, 2224)
    ]
    assert reduction_env.procs_of(spec) == 3
    assert replica_of(plan, Role.REDUCER).argv[-2:] == ("--procs", "3")


def test_settings_of_the_container_become_flags_and_nothing_else_does():
    env = [
        ("TRAINSHED_REDUCER_MAX_MEMORY", "2G"),
        ("TRAINSHED_REDUCER_TIMEOUT", "30"),
        ("PYTHONPATH", "/evil"),
    ]
    plan = plan_of(with_pool(env=env, command=["sh"], args=["-c", "x"]))
    reducer = replica_of(plan, Role.REDUCER)
    assert reducer.argv == (
        *("trainshed-reducer", "--idle-timeout", "0"),
        *("--max-memory", "2G", "--timeout", "30"),
    )
    assert "PYTHONPATH" not in reducer.env
    assert any(note.startswith(NOT_USED) for note in plan.notes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRAINSHED_REDUCER_PROCS", "0"),
        ("TRAINSHED_REDUCER_PROCS", "33"),
        ("TRAINSHED_REDUCER_PROCS", "two"),
        ("TRAINSHED_REDUCER_MAX_MEMORY", "2GB; rm"),
        ("TRAINSHED_REDUCER_TIMEOUT", "-1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_said_and_not_used(name, value):
    spec = with_pool(env=[(name, value)])
    plan = plan_of(spec)
    assert replica_of(plan, Role.REDUCER).argv == ("trainshed-reducer", "--idle-timeout", "0")
    assert reduction_env.procs_of(spec) == 1
    assert any(note.startswith(f"{name}={value} is ignored") for note in plan.notes)


@pytest.mark.parametrize("more", [{"command": ["sh"]}, {"args": ["x"]}, {"env": [("A", "x")]}])
def test_what_a_reducers_container_asks_for_is_noted_as_unused(more):
    plan = plan_of(with_pool(workers=[CHOICE], **more))
    (note,) = plan.notes
    assert note.startswith(NOT_USED)
    assert "A" not in replica_of(plan, Role.REDUCER).env


@pytest.mark.parametrize("env", [(), [("TRAINSHED_REDUCER_PROCS", "2")]])
def test_one_that_asks_for_nothing_strange_needs_no_note(env):
    assert plan_of(with_pool(workers=[CHOICE], env=env)).notes == ()
    spec = with_pool(workers=[CHOICE])
    groups = [
        replace(group, program=None) if group.role is Role.REDUCER else group
        for group in spec.groups
    ]
    assert plan_of(replace(spec, groups=tuple(groups))).notes == ()


def test_workers_that_choose_no_backend_in_their_env_are_told_how():
    (note,) = plan_of(with_pool()).notes
    assert note.startswith(HOW_TO_USE)
    assert "TRAINSHED_TORCH_BACKEND=reduction" in note
    assert plan_of(with_pool(workers=[CHOICE])).notes == ()


def test_nobody_is_made_to_use_them():
    plan = plan_of(with_pool())
    assert values_by_role(plan, "TRAINSHED_TORCH_BACKEND") == {}


def test_the_path_of_the_secret_reaches_those_who_take_part_and_no_plan_has_the_secret():
    plan = plan_of(with_pool())
    assert values_by_role(plan, "TRAINSHED_REDUCTION_TOKEN_FILE") == {}
    whole = reduction_env.with_token_file(plan, "/private/token")
    paths = values_by_role(whole, "TRAINSHED_REDUCTION_TOKEN_FILE")
    assert paths == dict.fromkeys([Role.PRIMARY, Role.WORKER, Role.REDUCER], "/private/token")
    assert values_by_role(whole, "TRAINSHED_REDUCTION_TOKEN") == {}
    assert all("/private/token" not in replica.argv for replica in whole.replicas)
    rest = [replica for replica in whole.replicas if replica.role is Role.EVALUATOR]
    assert rest == [replica for replica in plan.replicas if replica.role is Role.EVALUATOR]


def test_nothing_of_a_launcher_s_own_reduction_reaches_a_replica():
    library = Path(trainshed_trainer.__file__).parent
    read = "".join(path.read_text() for path in library.rglob("*.py"))
    names = set(re.findall(r'"(TRAINSHED_[A-Z_]+)"', read))
    assert trainer_contract.REDUCERS in names
    assert names <= set(plan_of(with_pool()).unset_env)


def test_whether_a_job_has_reducers():
    assert reduction_env.has_reducers(with_pool())
    assert not reduction_env.has_reducers(vertex_spec())
