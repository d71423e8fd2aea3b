"""The words that container runtimes are given, and how they are found."""

import csv
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.apptainer import Bind, client_env, mount, variables
from trainshed.engines.container_runtime import NONE, UNPRIVILEGED, Runtime, RuntimeChoice
from trainshed.engines.local.containers.argv import (
    SHM_BYTES_MIN,
    ContainerSpec,
    apptainer_run,
    docker_run,
    docker_started,
    shm_bytes,
)
from trainshed.engines.local.containers.detect import find
from trainshed.engines.local.containers.roots import ContainerRoots
from trainshed.engines.local.containers.start import AttemptSetup, container_name, replica_start
from trainshed.engines.local.containers.variables import for_docker
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan, ReplicaPlan
from trainshed.model.roles import Role

GIB = 1 << 30
USER = "1000:1000"
DOCKER = Runtime("docker", "/usr/bin/docker", "28.2.2", USER, has_init=True)
PODMAN = DOCKER._replace(name="podman", program="/usr/bin/podman")
APPTAINER = DOCKER._replace(name="apptainer", program="/usr/bin/apptainer")
IMAGE = "registry.example/train:1"
WORDS = st.text(min_size=1, max_size=12)


def box(*, command=None, args=None, image=IMAGE, **more):
    plan = ContainerPlan(image=image, command=command, args=args)
    plain = {"name": "ts-7-1-w", "mark": "7/1", "plan": plan, "env": {}, "home": "/w"}
    return ContainerSpec(**{**plain, "shm_bytes": SHM_BYTES_MIN, **more})


def run_words(runtime, container, euid=1000):
    return docker_run(runtime, container, (), euid=euid)


def values(argv, flag):
    return [argv[i + 1] for i, word in enumerate(argv) if word == flag]


def test_a_caller_is_not_unknown_while_the_runtime_does_not_answer():
    """As podman does not while one of its containers is broken: jobs would be refused for good."""
    roots = ContainerRoots(PODMAN._replace(program="/bin/false"), {})
    for _ in range(2):
        with pytest.raises(OSError, match="cannot list the containers of podman"):
            roots.refresh()


def test_podman_does_not_give_the_proxy_of_the_server_to_jobs():
    """Its ``run`` copies https_proxy of its own environment unless it is told otherwise."""
    assert "--http-proxy=false" in run_words(PODMAN, box())
    assert "--http-proxy=false" not in run_words(DOCKER, box())


@pytest.mark.parametrize(
    ("command", "args", "docker", "apptainer"),
    [
        (None, None, ("--", IMAGE), ("run", f"docker://{IMAGE}")),
        (None, ("-x", "1"), ("--", IMAGE, "-x", "1"), ("run", f"docker://{IMAGE}", "-x", "1")),
        (
            ("python", "t.py"),
            None,
            ("--entrypoint=python", "--", IMAGE, "t.py"),
            ("exec", f"docker://{IMAGE}", "python", "t.py"),
        ),
        (
            ("sh",),
            ("-c", "x"),
            ("--entrypoint=sh", "--", IMAGE, "-c", "x"),
            ("exec", f"docker://{IMAGE}", "sh", "-c", "x"),
        ),
    ],
)
def test_command_and_args_mean_what_docker_s_table_says(command, args, docker, apptainer):
    plan = ContainerPlan(image=IMAGE, command=command, args=args)
    assert tuple(docker_started(plan)) == docker
    words = apptainer_run(APPTAINER, box(command=command, args=args))
    assert (words[1], *words[words.index("--home") + 2 :]) == apptainer


@given(WORDS, st.lists(WORDS, max_size=3), st.lists(WORDS, max_size=3))
def test_no_word_of_a_job_becomes_a_flag_of_the_runtime(image, command, args):
    container = box(image=image, command=tuple(command), args=tuple(args))
    for runtime in (DOCKER, PODMAN):
        argv = run_words(runtime, container)
        end = argv.index("--")
        own = run_words(runtime, box())
        entry = (f"--entrypoint={command[0]}",) if command else ()
        assert argv[:end] == (*own[: own.index("--")], *entry)
        assert argv[end + 1 :] == (image, *command[1:], *args)


def test_a_container_runs_as_the_user_without_more_rights_and_hears_sigterm():
    argv = run_words(DOCKER, box())
    assert values(argv, "--user") == [USER]
    assert "no-new-privileges" in values(argv, "--security-opt")
    assert "--init" in argv
    assert "--init" not in run_words(DOCKER._replace(has_init=False), box())
    image_s = run_words(DOCKER._replace(user=None), box())
    assert not {"--user", "no-new-privileges"}.intersection(image_s)


@pytest.mark.parametrize("runtime", [DOCKER, PODMAN])
@pytest.mark.parametrize("user", [USER, None])
def test_containers_of_a_server_have_no_rights_whoever_they_run_as(runtime, user):
    walled = runtime._replace(is_isolated=True, is_read_only=True, user=user)
    argv = run_words(walled, box(processes_max=500))
    assert values(argv, "--cap-drop") == ["ALL"]
    assert values(argv, "--pids-limit") == ["500"]
    assert "no-new-privileges" in values(argv, "--security-opt")
    assert "--read-only" in argv
    places = [value.partition(":")[0] for value in values(argv, "--tmpfs")]
    assert places == ["/tmp", "/var/tmp", "/run"]  # noqa: S108 - the container's own
    writable = run_words(walled._replace(is_read_only=False), box())
    assert not {"--read-only", "--tmpfs"}.intersection(writable)


def test_a_container_without_peers_has_a_network_of_its_own():
    walled = DOCKER._replace(is_isolated=True)
    assert "--network" not in run_words(walled, box())
    assert values(run_words(walled, box(has_peers=True)), "--network") == ["host"]
    assert values(run_words(DOCKER, box()), "--network") == ["host"]


def test_a_rootless_podman_has_the_user_of_the_machine():
    assert "--userns=keep-id" in run_words(PODMAN, box())
    assert "--userns=keep-id" not in run_words(PODMAN, box(), euid=0)
    assert "--userns=keep-id" not in run_words(DOCKER, box())


def test_devices_are_the_ones_that_the_replica_holds_and_no_others():
    held = box(devices=("GPU-a", "MIG-b"))
    assert values(run_words(DOCKER, held), "--gpus") == ['"device=GPU-a,MIG-b"']
    assert values(run_words(PODMAN, held), "--device") == [
        "nvidia.com/gpu=GPU-a",
        "nvidia.com/gpu=MIG-b",
    ]
    assert "--nv" in apptainer_run(APPTAINER, held)
    assert not {"--gpus", "--device"}.intersection(run_words(DOCKER, box()))
    assert "--nv" not in apptainer_run(APPTAINER, box())


def test_limits_are_those_of_the_plan_without_swap_on_top():
    argv = run_words(DOCKER, box(memory_bytes=30 * GIB, cpus=8.0))
    assert values(argv, "--memory") == values(argv, "--memory-swap") == [str(30 * GIB)]
    assert values(argv, "--cpus") == ["8"]
    without = run_words(DOCKER, box())
    assert not {"--memory", "--cpus", "--pids-limit"}.intersection(without)
    assert values(run_words(PODMAN, box()), "--pids-limit") == ["-1"]


@pytest.mark.parametrize(
    ("limit", "replicas", "expected"),
    [
        (None, 1, 32 * GIB),
        (None, 4, 8 * GIB),
        (10 * GIB, 4, 5 * GIB),
        (100 * GIB, 4, 8 * GIB),
        (None, 10_000, SHM_BYTES_MIN),
    ],
)
def test_shared_memory_is_half_of_a_replica_s_share(limit, replicas, expected):
    assert shm_bytes(limit, 64 * GIB, replicas) == expected


def test_peers_are_resolvable_and_addresses_mean_what_they_mean_on_the_machine():
    argv = run_words(DOCKER, box(hosts=(("127.0.0.1", "cmle-training-workerpool1-ab-0"),)))
    assert values(argv, "--network") == ["host"]
    assert values(argv, "--add-host") == ["cmle-training-workerpool1-ab-0:127.0.0.1"]


@given(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), min_size=1))
def test_any_path_can_be_mounted(path):
    (fields,) = csv.reader([mount(Bind(path, "/gcs/b"))])
    assert fields == ["type=bind", f"source={path}", "target=/gcs/b"]


NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0"), max_size=30)))
def test_every_variable_reaches_its_container_as_it_is(env):
    docker_variables = for_docker(env)
    lines = docker_variables.file.split("\n")[:-1]
    received = dict(line.split("=", 1) for line in lines)
    assert not any("\r" in line for line in lines)
    for flag in values(docker_variables.flags, "--env"):
        name, is_there, value = flag.partition("=")
        received[name] = value if is_there else docker_variables.process[name]
    assert received == env
    assert set(docker_variables.process) <= set(env)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "DOCKER_HOST", "PATH", "HOME", "https_proxy", "GODEBUG", "XDG_X"]
)
def test_no_variable_of_a_job_changes_what_the_runtime_s_own_command_does(name):
    for value in ("/evil.so", "/evil.so\n"):
        assert name not in for_docker({name: value}).process
        assert name not in variables("apptainer", {name: value})


def test_a_value_of_many_lines_and_a_long_one_do_not_get_into_the_arguments():
    docker_variables = for_docker(
        {"KEY": "a\nb", "TF_CONFIG": "x" * 70_000, "Q": '"q"', "PLAIN": "#1 "}
    )
    assert docker_variables.flags == ("--env", "KEY", "--env", "TF_CONFIG", "--env", "Q")
    assert docker_variables.file == "PLAIN=#1 \n"


def test_apptainer_knows_variables_by_a_prefix():
    env = variables("apptainer", {"A": "a\nb", "HOME": "/x", "PATH": "/bin"})
    assert env == {"APPTAINERENV_A": "a\nb", "APPTAINERENV_PATH": "/bin"}


def test_the_runtime_s_own_command_gets_what_it_needs_and_no_secret():
    allowed = {"PATH": "/bin", "DOCKER_HOST": "tcp://x", "HTTPS_PROXY": "p", "HOME": "/h"}
    secret = {"TRAINSHED_TOKEN": "t", "PGPASSWORD": "p", "AIP_X": "1", "APPTAINERENV_X": "1"}
    assert client_env({**allowed, **secret}) == allowed


def test_names_of_containers_are_the_same_whoever_asks():
    assert container_name("12/3", "workerpool0-0") == "ts-12-3-workerpool0-0"
    assert container_name("12/3", "a b/ü") == "ts-12-3-a-b--"


def replica(**container):
    return ReplicaPlan(
        role=Role.PRIMARY,
        index=0,
        task_name="workerpool0-0",
        argv=(),
        memory_bytes_max=GIB,
        cpus_max=2.0,
        container=ContainerPlan(image=IMAGE, **container),
    )


def around(folder):
    return AttemptSetup(
        mark="7/1",
        files=str(folder / "env"),
        work=str(folder / "work"),
        replicas=2,
        hosts=(("127.0.0.1", "peer"),),
        binds=(("/data/buckets/b", "/gcs/b"),),
        shown=("/data/jobs/7/1/progress",),
    )


def test_a_replica_gets_its_folders_its_file_of_variables_and_a_way_to_be_removed(tmp_path):
    env = {"AIP_MODEL_DIR": "/data/buckets/b/model/", "SECRET": "s3cr3t"}
    start = replica_start(DOCKER, replica(), around(tmp_path), env=env, launcher_env={"HOME": "/h"})
    *mounts, _passwd = values(start.argv, "--mount")
    work, progress = tmp_path / "work", "/data/jobs/7/1/progress"
    assert mounts == [
        f"type=bind,source={work},target={work}",
        f"type=bind,source={progress},target={progress}",
        "type=bind,source=/data/buckets/b,target=/gcs/b",
        "type=bind,source=/data/buckets/b,target=/data/buckets/b",
    ]
    (file,) = values(start.argv, "--env-file")
    assert (tmp_path / "env/workerpool0-0").samefile(file)
    assert (tmp_path / "env/workerpool0-0").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "env/workerpool0-0").read_text()
    assert text.splitlines() == [
        f"HOME={work}",
        "USER=trainshed",
        "LOGNAME=trainshed",
        "AIP_MODEL_DIR=/data/buckets/b/model/",
        "SECRET=s3cr3t",
    ]
    assert "s3cr3t" not in " ".join(start.argv)
    assert start.env == {"HOME": "/h"}
    assert values(start.argv, "--name") == ["ts-7-1-workerpool0-0"]
    assert [words[-2:] for words in start.cleanup] == [
        ("/usr/bin/docker", "label=trainshed.job=7/1")
    ]
    assert values(start.argv, "--label") == ["trainshed.job=7/1"]
    assert values(start.argv, "--memory") == [str(GIB)]


def test_docker_has_the_user_of_a_container_in_its_passwd_as_others_have_by_themselves(tmp_path):
    mounts = {
        runtime: values(
            replica_start(runtime, replica(), around(tmp_path), env={}, launcher_env={}).argv,
            "--mount",
        )
        for runtime in (DOCKER, PODMAN, DOCKER._replace(user=None), DOCKER._replace(user="0:0"))
    }
    passwd = tmp_path / "env/workerpool0-0.passwd"
    *expected, last = mounts.pop(DOCKER)
    assert last == f"type=bind,source={passwd},target=/etc/passwd,readonly"
    assert all(specs == expected for specs in mounts.values())
    assert passwd.stat().st_mode & 0o777 == 0o644
    assert passwd.read_text().splitlines() == [
        "root:x:0:0::/:/bin/sh",
        f"trainshed:x:1000:1000::{tmp_path}/work:/bin/sh",
    ]


def test_what_the_job_says_of_its_home_holds(tmp_path):
    replica_start(DOCKER, replica(), around(tmp_path), env={"HOME": "/mine"}, launcher_env={})
    assert "HOME=/mine\n" in (tmp_path / "env/workerpool0-0").read_text()


def test_a_container_of_apptainer_is_a_process_like_others(tmp_path):
    start = replica_start(
        APPTAINER, replica(), around(tmp_path), env={"A": "1"}, launcher_env={"PATH": "/bin"}
    )
    assert start.is_process
    assert not start.cleanup
    assert start.env["APPTAINERENV_A"] == "1"
    assert start.env["PATH"] == "/bin"


def test_a_runtime_that_has_gone_is_told(tmp_path):
    with pytest.raises(EngineFault, match="container runtime"):
        replica_start(None, replica(), around(tmp_path), env={}, launcher_env={})


def installed(folder, name, script):
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    path.chmod(0o755)


ANSWER = """
import json
init = {"Name": "docker-init", "Version": "0.19.0"}
print(json.dumps({"Version": "28.2.2", "Components": [init]}))
"""
REFUSAL = "sys.exit('Cannot connect to the Docker daemon')"


def look(folder, requested="auto", **more):
    me = {"euid": 1000, "egid": 1000, **more}
    return find(requested, environ={"PATH": str(folder)}, **me)


def test_the_first_runtime_that_answers_is_taken(tmp_path):
    installed(tmp_path, "docker", REFUSAL)
    installed(tmp_path, "podman", "print('4.3.1')")
    choice = look(tmp_path)
    assert (choice.runtime.name, choice.runtime.version, choice.runtime.user) == (
        "podman",
        "4.3.1",
        USER,
    )
    assert choice.description == "podman 4.3.1, containers run as 1000:1000"
    installed(tmp_path, "docker", ANSWER)
    assert look(tmp_path).runtime == Runtime(
        "docker", str(tmp_path / "docker"), "28.2.2", USER, has_init=True
    )


def test_why_there_is_none_is_said(tmp_path):
    absent = look(tmp_path)
    assert absent.runtime is None
    assert absent.reason == "docker, podman, apptainer and singularity are not installed"
    installed(tmp_path, "docker", REFUSAL)
    assert look(tmp_path).reason == "docker is installed but its daemon does not answer"
    assert look(tmp_path).description == "none: docker is installed but its daemon does not answer"
    installed(tmp_path, "docker", "print('{}')")
    assert look(tmp_path).reason == "docker is installed but does not answer as Docker does"
    assert look(tmp_path, "podman").reason == "podman is not installed"
    assert look(tmp_path, "none") == NONE


def test_a_runtime_is_asked_only_if_it_was_chosen(tmp_path):
    installed(tmp_path, "docker", ANSWER)
    assert look(tmp_path, "podman").runtime is None
    installed(tmp_path, "singularity", "print('3.8.7')")
    assert look(tmp_path, "apptainer").runtime.name == "singularity"


@pytest.mark.parametrize(("name", "is_there"), [("docker", True), ("apptainer", False)])
def test_no_job_of_a_server_that_is_root_runs_where_containers_are_their_caller_s(name, is_there):
    choice = RuntimeChoice(Runtime(name, f"/usr/bin/{name}", "1", UNPRIVILEGED))
    walled = choice.with_isolation(is_read_only=True, is_root=True)
    assert bool(walled.runtime) is is_there
    assert is_there or "allow_root_jobs" in walled.reason
    assert choice.with_isolation(is_read_only=True).runtime


def test_containers_of_a_server_that_is_root_are_not(tmp_path):
    installed(tmp_path, "docker", ANSWER)
    assert look(tmp_path, euid=0, egid=0).runtime.user == UNPRIVILEGED
    assert look(tmp_path, euid=0, egid=0, user="1234").runtime.user == "1234:1234"
    assert look(tmp_path, euid=0, egid=0, user="image").runtime.user is None
    installed(tmp_path, "apptainer", "print('1.2.5')")
    assert "would run images as root" in look(tmp_path, "apptainer", euid=0).reason
    assert look(tmp_path, "apptainer", euid=0, user="image").runtime is not None
