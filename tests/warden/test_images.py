"""The command of a replica that runs in its own image, as the plan has it and as its node does."""

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import StepRule
from trainshed.engines.warden import compose, images
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan, Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

KEY = AttemptKey(7, 2)
FOLDER = AttemptFolder("/shared/jobs/7/2")
APPTAINER = Runtime("apptainer", "/opt/bin/apptainer", "of the nodes", None)
NODE = {
    "PATH": "/usr/bin",
    "APPTAINER_CACHEDIR": "/cache",
    "CUDA_VISIBLE_DEVICES": "2,3",
    "SLURM_JOB_ID": "9",
    "LC_ALL": "C",
    "APPTAINERENV_EVIL": "1",
}
PRIVATE = '/tmp/trainshed, "own"'  # noqa: S108 - a name that needs quotes
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def spec_of(*, command=("python", "t.py"), args=None, env=None, gpus=0, runtime=APPTAINER, **more):
    container = ContainerPlan(image="host/train:1", command=command, args=args)
    only = ReplicaPlan(
        role=Role.PRIMARY,
        index=0,
        task_name="primary-0",
        argv=(),
        env=env or {},
        gpu_count=gpus,
        container=container,
    )
    plan = LaunchPlan(
        job_id="j",
        attempt=2,
        replicas=(only,),
        environment=Environment(python="/usr/bin/python3"),
        **more,
    )
    return compose.spec_of(plan, KEY, FOLDER, steps=(StepRule(("srun",)),), runtime=runtime)


def on_node(spec, **given_there):
    return images.complete(spec.replicas[0], NODE, given_there, PRIVATE)


def mounts(argv):
    values = [argv[i + 1] for i, word in enumerate(argv) if word == "--mount"]
    rows = [
        dict(part.partition("=")[::2] for part in next(csv.reader([value]))) for value in values
    ]
    return [(row["source"], row["target"]) for row in rows]


def test_a_command_in_an_image():
    command = on_node(spec_of(binds=(("/shared/buckets/b", "/gcs/b"),), gpus=2))
    assert command.argv[:4] == ("/opt/bin/apptainer", "exec", "--compat", "--cleanenv")
    assert command.argv[4:7] == ("--nv", "--home", FOLDER.work)
    assert command.argv[-3:] == ("docker://host/train:1", "python", "t.py")
    assert mounts(command.argv) == [
        (PRIVATE, PRIVATE),
        (FOLDER.work, FOLDER.work),
        (FOLDER.shared, FOLDER.shared),
        ("/shared/buckets/b", "/gcs/b"),
        ("/shared/buckets/b", "/shared/buckets/b"),
    ]
    assert command.cwd == FOLDER.work


@pytest.mark.parametrize("args", [None, ("-x", "{ts-private-mount}")])
def test_the_images_own_program(args):
    argv = on_node(spec_of(command=None, args=args)).argv
    assert argv[1] == "run"
    assert "--nv" not in argv
    assert argv[argv.index("docker://host/train:1") + 1 :] == (args or ())


@settings(max_examples=50)
@given(text=TEXTS)
def test_variables_of_the_job_are_the_containers_alone_byte_for_byte(text):
    spec = spec_of(env={"WORD": text, "LD_PRELOAD": "/evil.so", "APPTAINER_BIND": "/"})
    env = on_node(spec, CUDA_VISIBLE_DEVICES="2,3").env
    inside = {name[13:]: value for name, value in env.items() if name.startswith("APPTAINERENV_")}
    outside = {name for name in env if not name.startswith("APPTAINERENV_")}
    assert inside["WORD"] == text
    assert inside["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert outside == {"PATH", "APPTAINER_CACHEDIR", "TRAINSHED_JOB"}
    assert env["APPTAINER_CACHEDIR"] == "/cache"
    assert "EVIL" not in inside


def test_an_image_that_nothing_runs_any_more():
    with pytest.raises(EngineFault, match="needs apptainer on the nodes"):
        spec_of(runtime=None)
