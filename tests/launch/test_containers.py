"""What starts a replica in its own image (docs/sources/vertex.md 7.1 and 8)."""

import os
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

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
from trainshed.launch import containers
from trainshed.model.job import ProgramKind
from trainshed.model.launch_plan import ContainerPlan, Environment
from trainshed.model.roles import Role

IMAGE = "registry.example/train:1"
NOBODY = 65_534
INSIDE = frozenset({Role.PRIMARY})


def container_of(spec, **changes):
    return plan_of(spec, in_containers=INSIDE, **changes).primary.container


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), (None, None)),
        ((), ARGS, (None, tuple(ARGS))),
        (("python", "t.py"), (), (("python", "t.py"), None)),
        (("python",), ARGS, (("python",), tuple(ARGS))),
    ],
)
def test_what_the_job_does_not_give_is_the_image_s(command, args, expected):
    spec = vertex_spec(program=container(command=command, args=args))
    plan = container_of(spec)
    assert plan == ContainerPlan(image=IMAGE, command=expected[0], args=expected[1])


def test_what_the_service_adds_follows_the_job_s_own_args():
    plan = container_of(ml_spec(program=container(command=[])))
    assert plan.command is None
    assert plan.args == (*ARGS, "--job-dir", "gs://bkt/out/digits")
    trial = container_of(vertex_spec(study=STUDY), trial=TRIAL)
    assert trial.args == (*ARGS, "--learning_rate", "0.01", "--layers", "2")


def test_the_table_gives_an_image_and_a_command_where_the_job_gives_none():
    site = {"images": {Role.PRIMARY: "corp/x:1"}, "entrypoints": {Role.PRIMARY: ("/start.sh",)}}
    plan = container_of(vertex_spec(program=container(command=(), args=ARGS)), **site)
    assert plan == ContainerPlan(image="corp/x:1", command=("/start.sh",), args=tuple(ARGS))
    plan = container_of(vertex_spec(program=container(command=("python",), args=())), **site)
    assert plan.command == ("python",)
    without = replace(executor().groups[0].program, image_uri=None, runtime_version="2.11")
    spec = replace(executor(), groups=(replace(executor().groups[0], program=without),))
    assert container_of(spec, **site).image == "corp/x:1"


def test_only_the_roles_that_were_named_run_in_containers():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.WORKER: 2}), in_containers=[Role.WORKER])
    assert plan.primary.container is None
    assert plan.primary.argv[0] == "python"
    workers = [replica_of(plan, Role.WORKER, i).container for i in range(2)]
    assert [w.image for w in workers] == [IMAGE, IMAGE]


def test_the_environment_is_the_one_that_processes_get():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1})
    assert plan_of(spec, in_containers=INSIDE).primary.env == plan_of(spec).primary.env


def executor(**changes):
    program = replace(package(), image_uri="registry.example/executor:1", **changes)
    return vertex_spec(program=program)


def test_an_executor_image_runs_the_module():
    plan = container_of(executor())
    assert plan.image == "registry.example/executor:1"
    assert plan.command == ("python3", "-m", "trainer.task")
    assert plan.args == tuple(ARGS)


@pytest.mark.parametrize("flags", [("--user",), ()], ids=["as a user", "in a virtual environment"])
def test_an_executor_image_installs_the_packages_first(tmp_path, flags):
    """Run by a shell with a python3 that writes down what it was called with."""
    python = tmp_path / "python3"
    shown = f"[ $1 = -c ] && exec echo {' '.join(flags)}"
    python.write_text(f'#!/bin/sh\n{shown}\necho "$PYTHONUSERBASE" "$@"\n')
    python.chmod(0o755)
    packages = ("/data/a b.tar.gz", "/data/$c.whl")
    environment = Environment(python="x", packages=packages)
    plan = container_of(executor(args=("--x", "a  b")), environment=environment)
    output = subprocess.run(
        [*plan.command, *plan.args],
        env={"PATH": f"{tmp_path}:/bin:/usr/bin", "TMPDIR": "/t"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    base = "/t/trainshed-packages"
    install, run = output.splitlines()
    pip = shlex.join(("-m", "pip", "install", *flags, *containers.PIP_FLAGS))
    assert install == f"{base} {pip} {' '.join(packages)}"
    assert run == f"{base} -m trainer.task --x a  b"


def test_a_package_s_program_starts_where_it_may_write():
    """A trainer writes files where it stands, and an image's own folder is closed."""
    plan = container_of(executor(), environment=Environment(python="x", packages=("/p.whl",)))
    with tempfile.TemporaryDirectory() as home:  # pytest's folders are closed to others
        Path(home).chmod(0o777)
        Path(home, "python3").write_text("#!/bin/sh\n[ $1 = -c ] || pwd\n")
        Path(home, "python3").chmod(0o755)
        for cwd, begun in (("/", home), (home, home), ("/tmp", "/tmp")):  # noqa: S108
            output = subprocess.run(
                [*plan.command, *plan.args],
                cwd=cwd,
                env={"PATH": f"{home}:/bin:/usr/bin", "HOME": home},
                user=NOBODY if os.geteuid() == 0 else None,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            assert output.split() == [cwd, begun]


def test_every_kind_of_program_can_run_in_a_container():
    assert set(containers.COMMAND) == set(ProgramKind)
