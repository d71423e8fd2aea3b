"""The command line of each kind of replica."""

from dataclasses import replace

import pytest

from launch.builders import (
    ARGS,
    STUDY,
    TRIAL,
    container,
    ml_spec,
    package,
    plan_of,
    replica_of,
    vertex_spec,
)
from trainshed.launch import arguments
from trainshed.model.faults import Fault, Field, FieldPath
from trainshed.model.job import Program, ProgramKind
from trainshed.model.roles import Dialect, Role

HYPERPARAMETERS = ("--learning_rate", "0.01", "--layers", "2")
JOB_DIR = ("--job-dir", "gs://bkt/out/digits")


def argv(spec, **changes):
    return plan_of(spec, **changes).primary.argv


def test_a_package_runs_its_module_with_the_users_args_then_job_dir():
    assert argv(ml_spec()) == ("python", "-m", "trainer.task", *ARGS, *JOB_DIR)


def test_a_trial_appends_hyperparameters_before_its_own_job_dir():
    expected = ("python", "-m", "trainer.task", *ARGS, *HYPERPARAMETERS)
    spec = ml_spec(study=STUDY)
    assert argv(spec, trial=TRIAL) == (*expected, "--job-dir", "gs://bkt/out/digits/3")


def test_the_job_dir_of_a_trial_has_one_slash():
    spec = replace(ml_spec(study=STUDY), job_dir="gs://bkt/out/")
    assert argv(spec, trial=TRIAL)[-1] == "gs://bkt/out/3"


def test_the_job_dir_outside_tuning_is_handed_over_as_it_is():
    assert argv(replace(ml_spec(), job_dir="gs://bkt/out/"))[-1] == "gs://bkt/out/"


def test_no_job_dir_no_flag():
    assert argv(replace(ml_spec(), job_dir=None)) == ("python", "-m", "trainer.task", *ARGS)


def test_an_ml_v1_container_gets_job_dir_too():
    assert argv(ml_spec(program=container())) == ("python", "/app/train.py", *ARGS, *JOB_DIR)


@pytest.mark.parametrize("program", [container(), package()])
def test_vertex_never_passes_job_dir(program):
    spec = replace(vertex_spec(program=program), job_dir="gs://bkt/out")
    assert "--job-dir" not in argv(spec)


def test_a_vertex_container_gets_hyperparameters_after_its_args():
    spec = vertex_spec(study=STUDY)
    assert argv(spec, trial=TRIAL) == ("python", "/app/train.py", *ARGS, *HYPERPARAMETERS)


def test_only_the_job_dir_is_mapped_never_a_users_argument():
    spec = ml_spec(program=package("2.11", args=["gs://bkt/data", "--out=gs://bkt/x"]))
    mapped = argv(spec, map_uri=lambda uri: uri.replace("gs://", "/data/"))
    assert mapped[3:5] == ("gs://bkt/data", "--out=gs://bkt/x")
    assert mapped[-2:] == ("--job-dir", "/data/bkt/out/digits")


def test_references_in_command_and_args_are_left_as_they_are():
    spec = vertex_spec(program=container(command=["sh"], args=["$(HOME)"], env=[("HOME", "/x")]))
    assert argv(spec) == ("sh", "$(HOME)")


def test_a_reducer_runs_our_program_whatever_its_container_says():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.REDUCER: 1}), trial=TRIAL)
    assert replica_of(plan, Role.REDUCER).argv == ("trainshed-reducer", "--idle-timeout", "0")


def test_a_container_without_command_starts_at_the_entry_point_it_is_given():
    spec = vertex_spec(program=container(command=[]))
    assert argv(spec, entrypoints={Role.PRIMARY: ("/start.sh",)}) == ("/start.sh", *ARGS)


def test_a_command_wins_over_an_entry_point():
    words = argv(vertex_spec(), entrypoints={Role.PRIMARY: ("/start.sh",)})
    assert words[0] == "python"


@pytest.mark.parametrize(
    ("make", "accepted"), [(vertex_spec, "containerSpec.command"), (ml_spec, "containerCommand")]
)
def test_a_container_without_command_or_entry_point_is_refused(make, accepted):
    with pytest.raises(Fault) as caught:
        plan_of(make(program=container(command=[])))
    (violation,) = caught.value.violations
    assert violation.rule == "no-command"
    assert violation.field == FieldPath(Field.COMMAND, Role.PRIMARY)
    assert "cannot know the entry point of its image" in violation.message
    assert violation.accepted == accepted


def test_every_group_with_nothing_to_run_is_named_at_once():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.EVALUATOR: 1})
    primary, worker, evaluator = spec.groups
    broken = replace(
        spec,
        groups=(
            replace(primary, program=Program(kind=ProgramKind.PYTHON_PACKAGE)),
            replace(worker, program=None),
            replace(evaluator, program=container(command=[])),
        ),
    )
    with pytest.raises(Fault) as caught:
        plan_of(broken)
    rules = [violation.rule for violation in caught.value.violations]
    assert rules == ["no-module", "no-program", "no-command"]


def test_an_ml_v1_group_without_a_program_runs_the_primarys():
    spec = ml_spec({Role.PRIMARY: 1, Role.WORKER: 1})
    primary, worker = spec.groups
    plan = plan_of(replace(spec, groups=(primary, replace(worker, program=None))))
    assert replica_of(plan, Role.WORKER).argv == plan.primary.argv


def test_the_tables_are_total():
    assert set(arguments.START) == set(ProgramKind)
    assert set(arguments.COMMAND_FIELD) == set(Dialect)
