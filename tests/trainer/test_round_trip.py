"""What the launcher tells a replica, the replica reads: both sides of the contract at once."""

import pytest

from launch.builders import JOB_ID, STUDY, TRIAL, container, ml_spec, package, plan_of, vertex_spec
from trainshed.launch import variables
from trainshed.model import trainer_contract
from trainshed.model.roles import Role
from trainshed_trainer import ReplicaEnv, contract

ALL_FOUR = {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 1, Role.EVALUATOR: 1}
SHAPES = [ALL_FOUR, {Role.PRIMARY: 1}, {Role.PRIMARY: 1, Role.EVALUATOR: 1}]
SPECS = {
    "ml package, chief": lambda counts: ml_spec(counts, package("2.11")),
    "ml package, master": lambda counts: ml_spec(counts, package("1.15")),
    "ml container": lambda counts: ml_spec(counts, container()),
    "vertex container": lambda counts: vertex_spec(counts, container()),
    "vertex package": lambda counts: vertex_spec(counts, package()),
}


def read(replica):
    return ReplicaEnv.from_environ(replica.env, replica.argv)


def names(module):
    words = vars(module).values()
    return {word for word in words if isinstance(word, str) and word.isupper()}


@pytest.mark.parametrize("counts", SHAPES, ids=["all four", "single", "evaluator"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_replica_finds_its_own_place(spec, counts):
    world = sum(counts.get(role, 0) for role in (Role.PRIMARY, Role.WORKER))
    for replica in plan_of(spec(counts)).replicas:
        env = read(replica)
        assert (env.role, env.index) == (replica.role.value, replica.index)
        assert env.rank == {"primary": 0, "worker": 1 + env.index}.get(env.role)
        assert env.world_size == world
        assert env.job_id == JOB_ID


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_replica_finds_its_peers(spec):
    for replica in plan_of(spec(ALL_FOUR)).replicas:
        counts = {role: len(addresses) for role, addresses in read(replica).peers.items()}
        expected = {role.value: count for role, count in ALL_FOUR.items()}
        assert counts in (expected, {k: v for k, v in expected.items() if k != "evaluator"})


@pytest.mark.parametrize("spec", [ml_spec, vertex_spec])
def test_a_trial_and_its_folders_reach_the_program(spec):
    env = read(plan_of(spec(study=STUDY), trial=TRIAL).primary)
    assert env.trial == "3"
    assert env.job_dir == "gs://bkt/out/digits/3"
    assert env.checkpoint_dir == "gs://bkt/out/digits/3/checkpoints/"


def test_the_two_sides_use_the_same_names():
    own = {name for name in names(contract) if name.startswith("TRAINSHED_")}
    assert own == names(trainer_contract)
    assert contract.TF_CONFIG in names(contract) - own <= names(variables)


def test_the_attempt_reaches_the_program():
    env = ReplicaEnv.from_environ({trainer_contract.ATTEMPT: "2"}, [])
    assert (env.attempt, env.is_restart) == (2, True)
