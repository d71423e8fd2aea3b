"""The plan of an attempt whose wardens a cluster starts, and plans of the commit before."""

import json
from pathlib import Path

import pytest

from trainshed.engines.supervise.record import spec as specs
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import (
    OWN_CONTAINER,
    SLURM_VARIABLES,
    AttemptSpec,
    StepRule,
)
from trainshed.engines.warden import compose
from trainshed.engines.warden.completion import NodePython, complete_replica, select_inherited
from trainshed.engines.warden.task import compose_task
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import decode, encode
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan, Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

KEY = AttemptKey(7, 2)
FOLDER = AttemptFolder("/trainshed/attempt")
#: The folder that a warden shares with its program.
PRIVATE = "/private"
#: Written by the commit before, for two workers of a job with packages.
EARLIER_PLAN = Path(__file__).parent / "earlier_plan.json"


def plan_of(*containers, **more):
    replicas = tuple(
        ReplicaPlan(
            role=Role.PRIMARY if not index else Role.WORKER,
            index=max(0, index - 1),
            task_name=f"workerpool{min(1, index)}-0",
            argv=("python", "-m", "trainer"),
            env={"A": "of the job"},
            container=container,
        )
        for index, container in enumerate(containers)
    )
    environment = Environment(python="/usr/bin/python3")
    return LaunchPlan(job_id="j", attempt=2, replicas=replicas, environment=environment, **more)


def spec_of(*containers, port=61100, plan=None, **more):
    return compose.spec_of(plan_of(*containers, **(plan or {})), KEY, FOLDER, port=port, **more)


@pytest.mark.parametrize(
    ("command", "args", "argv"),
    [
        (("python", "t.py"), None, ("python", "t.py")),
        (("python", "t.py"), ("-x",), ("python", "t.py", "-x")),
        ((), ("serve",), ("serve",)),
    ],
)
def test_the_command_of_a_replica_in_its_own_container(command, args, argv):
    container = ContainerPlan(image="host/train:1", command=command, args=args)
    binds = (("/spool/buckets/b", "/gcs/b"),)
    (replica,) = spec_of(container, plan={"cwd": "/w", "binds": binds}).replicas
    assert replica.argv == argv
    assert replica.container == OWN_CONTAINER
    assert replica.cwd == ""
    assert replica.binds == ()
    assert replica.env["A"] == "of the job"


@pytest.mark.parametrize(
    "container",
    [ContainerPlan("i:1"), ContainerPlan("i:1", None, ("-x",)), ContainerPlan("i:1", ())],
)
def test_an_image_whose_command_is_unknown_is_refused(container):
    with pytest.raises(EngineFault, match="the job gives no command for i:1"):
        spec_of(container)


def test_a_program_without_an_image_stands_where_its_plan_or_its_warden_does():
    assert spec_of(None, plan={"cwd": "/w"}).replicas[0].cwd == "/w"
    assert spec_of(None).replicas[0].cwd == ""


def test_wardens_of_several_replicas_need_either_steps_or_a_port():
    with pytest.raises(ValueError, match="the port or the steps must be given for 2 replicas"):
        compose.spec_of(plan_of(None, None), KEY, FOLDER)
    assert spec_of(None).remote.steps == ()
    assert spec_of(None).remote.port == 61100


def complete(spec, node, **changes):
    task = json.loads(json.dumps(compose_task(spec, spec.remote, 0, FOLDER.path)))
    folder = AttemptFolder(PRIVATE)
    return complete_replica(spec.replicas[0], {**task, **changes}, node, folder, NodePython())


def test_an_image_s_own_variables_stay_and_those_of_the_job_win():
    spec = spec_of(
        ContainerPlan("i:1", ("train",)), drops=("KUBERNETES_",), plan={"unset_env": ("RANK",)}
    )
    node = {
        "A": "of the image", "RANK": "3", "PGPASSWORD": "x", "SLURM_JOB_ID": "1",
        "KUBERNETES_PORT": "1", "TRAINSHED_LAUNCHER_SECRET": "s", "CUDA_VISIBLE_DEVICES": "4",
    }  # fmt: skip
    env = complete(spec, node).env
    own = {name: env.get(name) for name in node}
    assert own == {
        **node, "A": "of the job", "KUBERNETES_PORT": None, "TRAINSHED_LAUNCHER_SECRET": None,
    }  # fmt: skip
    assert env["TRAINSHED_NOTICE_FILE"] == f"{PRIVATE}/progress/notice"


@pytest.mark.parametrize("is_shared", [True, False])
def test_files_of_a_program_are_where_its_warden_can_read_them(is_shared):
    spec = spec_of(ContainerPlan("i:1", ("train",)), has_shared_folder=is_shared)
    path = complete(spec, {}).env["TRAINSHED_STEPS_FILE"]
    assert path.startswith(FOLDER.path if is_shared else f"{PRIVATE}/")


def test_variables_of_a_cluster_are_dropped_by_the_prefixes_of_the_plan():
    node = {"SLURM_JOB_ID": "1", "PMI_RANK": "2", "KUBERNETES_PORT": "3", "LANG": "C"}
    kept_by_slurm = select_inherited(node, ["*"], [], SLURM_VARIABLES)
    assert kept_by_slurm == {"KUBERNETES_PORT": "3", "LANG": "C"}
    assert set(select_inherited(node, ["*"], ["LANG"], ["KUBE"])) == {"SLURM_JOB_ID", "PMI_RANK"}


def test_a_plan_of_the_commit_before_still_runs():
    earlier = decode(AttemptSpec, json.loads(EARLIER_PLAN.read_text()))
    assert earlier == specs.read(str(EARLIER_PLAN))
    assert earlier.remote.drops == SLURM_VARIABLES
    assert earlier.remote.port == 0
    assert earlier.remote.has_shared_folder
    task = compose_task(earlier, earlier.remote, 1, "/shared/7/2")
    assert task["folder"] == "/shared/7/2"
    assert not task["in_container"]


def test_a_plan_with_steps_says_what_it_said_before():
    earlier = decode(AttemptSpec, json.loads(EARLIER_PLAN.read_text()))
    new = {"ends_why": "", "port": 0, "drops": list(SLURM_VARIABLES), "has_shared_folder": True,
           "gpus": []}  # fmt: skip
    document = encode(earlier)
    assert document.pop("usage_s") == 0.0
    assert [replica.pop("gpus") for replica in document["replicas"]] == [[], []]
    assert {name: document["remote"].pop(name) for name in new} == new
    assert document == json.loads(EARLIER_PLAN.read_text())


def test_steps_must_still_start_every_replica_once():
    steps = (StepRule(("srun",), 0, 1),)
    with pytest.raises(ValueError, match="once each"):
        compose.spec_of(plan_of(None, None), KEY, FOLDER, steps=steps)


def test_a_plan_is_the_same_after_its_way_through_a_file(tmp_path):
    spec = spec_of(ContainerPlan("i:1", ("train",)), has_shared_folder=False, drops=())
    folder = AttemptFolder(tmp_path / "2")
    compose.write(folder, spec)
    assert specs.read(folder.plan) == spec
