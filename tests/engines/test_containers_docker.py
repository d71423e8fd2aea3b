"""Containers of a real docker: what a program finds inside, and that none outlives its attempt."""

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

from engines.docker_daemon import IMAGE, container_names, docker_with_image, why_not
from trainshed.engines.container_runtime import UNPRIVILEGED
from trainshed.engines.local.containers.detect import end_containers, find
from trainshed.engines.local.containers.roots import ContainerRoots
from trainshed.engines.local.containers.start import AttemptSetup, hand_over, replica_start
from trainshed.model.launch_plan import ContainerPlan, ReplicaPlan
from trainshed.model.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

#: Looked for on the whole machine: nobody else's tests may have the same.
MARK = f"{secrets.randbits(60)}/1"
CONTAINER = f"ts-{MARK.replace('/', '-')}-w-0"
DEADLINE_S = 120.0
UID = int(UNPRIVILEGED.split(":")[0])
#: Writes that it is there, then waits for a signal.
WAITING = "trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def daemon():
    with docker_with_image() as env:
        yield env


@pytest.fixture
def start(daemon, tmp_path):
    """Starts a container as a supervisor would; what a test leaves is removed."""
    choice = find("docker", environ=daemon)
    runtime, walled = choice.runtime, choice.with_isolation(is_read_only=True).runtime
    bucket, work, progress = (tmp_path / name for name in ("bucket", "work", "progress"))
    for folder in (bucket, work, progress):
        folder.mkdir()
    hand_over(map(str, (bucket, work, progress)), runtime.user)
    (bucket / "data").write_text("from the bucket")
    around = AttemptSetup(
        mark=MARK,
        files=str(tmp_path / "env"),
        work=str(work),
        replicas=2,
        hosts=(("127.0.0.1", "cmle-training-workerpool1-ab-0"),),
        binds=((str(bucket), "/gcs/stage"),),
        shown=(str(progress),),
    )
    running = []

    def begin(command=None, args=None, env=None, *, walls=False, **more):
        plan = ContainerPlan(image=more.pop("image", IMAGE), command=command, args=args)
        replica = ReplicaPlan(
            role=Role.PRIMARY, index=0, task_name="w-0", argv=(), container=plan, **more
        )
        variables = {"TRAINSHED_JOB": MARK, **(env or {})}
        how = (
            (walled, replica, around._replace(replicas=1)) if walls else (runtime, replica, around)
        )
        begun = replica_start(*how, env=variables, launcher_env=daemon)
        process = subprocess.Popen(
            begun.argv, env=begun.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process, begun

    yield begin
    for process in running:
        process.kill()
        process.communicate()
    assert end_containers(runtime, MARK, daemon) == []


def ended(process):
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def awaited(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        (None, None, "from CMD\n"),
        (None, ("echo from args",), "from args\n"),
        (("echo", "from", "command"), None, "from command\n"),
        (("echo", "from"), ("both",), "from both\n"),
    ],
)
def test_an_image_is_started_as_docker_starts_it(start, command, args, expected):
    assert ended(start(command, args)[0]) == (0, expected, "")


def test_a_container_of_a_server_has_no_rights_closed_files_and_its_own_network(start, tmp_path):
    script = (
        "cat /proc/self/status /proc/net/dev; touch /mine; touch /tmp/mine && echo open; "
        f"touch {tmp_path}/work/mine"
    )
    code, out, err = ended(start(args=(script,), walls=True)[0])
    words = [line.split() for line in out.splitlines()]
    status = {line[0]: line[1] for line in words if len(line) == 2}
    assert {status[name] for name in ("CapEff:", "CapPrm:", "CapBnd:")} == {"0" * 16}
    assert status["NoNewPrivs:"] == "1"
    assert [line[0] for line in words if len(line) > 10 and line[0].endswith(":")] == ["lo:"]
    assert "Read-only file system" in err
    assert words[-1] == ["open"]
    assert (code, (tmp_path / "work/mine").exists()) == (0, True)


def test_output_and_exit_status_are_the_program_s(start):
    code, out, err = ended(start(args=("echo out; echo err >&2; exit 7",))[0])
    assert (code, out, err) == (7, "out\n", "err\n")


def test_variables_arrive_as_they_are_and_the_image_s_stay(start):
    env = {
        "LINES": "a\nb",
        "JSON": '{"a": "b"}',
        "QUOTED": '"q"',
        "END": "x ",
        "LONG": "x" * 70_000,
        "DOCKER_HOST": "tcp://nowhere",
    }
    code, out, _ = ended(start(("env", "-0"), env=env)[0])
    variables = dict(entry.split("=", 1) for entry in out.rstrip("\0").split("\0"))
    assert code == 0
    assert env.items() <= variables.items()
    assert variables["FROM_IMAGE"] == "yes"
    assert variables["TRAINSHED_JOB"] == MARK


def test_it_is_not_root_has_a_name_and_writes_where_the_job_may(start, tmp_path):
    script = (
        "id -u; id -un; cat /gcs/stage/data; touch /gcs/stage/new $HOME/here; "
        f"mkdir -p /gcs/stage/a/b && touch {tmp_path}/bucket/a/b/c; echo; cat /etc/shadow"
    )
    _, out, _ = ended(start(args=(script,))[0])
    assert out == f"{UID}\ntrainshed\nfrom the bucket\n"
    assert {path.name for path in (tmp_path / "bucket").iterdir()} == {"data", "new", "a"}
    assert (tmp_path / "bucket/new").stat().st_uid == UID
    assert (tmp_path / "bucket/a/b/c").exists()
    assert (tmp_path / "work/here").exists()


def test_shared_memory_is_large_and_peers_have_names(start):
    script = "df -k /dev/shm; cat /etc/hosts"
    _, out, _ = ended(start(args=(script,), memory_bytes_max=1 << 30)[0])
    size_kib = int(out.splitlines()[1].split()[1])
    assert size_kib == 1 << 19
    assert "127.0.0.1\tcmle-training-workerpool1-ab-0" in out


def test_the_memory_limit_is_kept(start):
    script = "x=a; while :; do x=$x$x; done"
    code, _, _ = ended(start(args=(script,), memory_bytes_max=1 << 26)[0])
    assert code == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_and_an_image_that_is_not(start):
    code, _, err = ended(start(("/nowhere",))[0])
    assert code == 127
    assert "/nowhere" in err
    code, _, err = ended(start(image="--privileged")[0])
    assert code == 125
    assert "invalid reference format" in err


def test_sigterm_reaches_the_program_and_its_answer_comes_back(start, daemon):
    process, _ = start(args=(WAITING,))
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert ended(process) == (5, "told\n", "")
    awaited(lambda: not container_names(daemon))


def test_what_a_killed_client_leaves_is_removed_and_nothing_is_no_trouble(start, daemon):
    process, begun = start(args=(DEAF,))
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    assert container_names(daemon) == [CONTAINER]
    (cleanup,) = begun.cleanup
    subprocess.run(cleanup, env=daemon, check=True, capture_output=True)
    assert container_names(daemon) == []
    awaited(lambda: not marked())
    again = subprocess.run(cleanup, env=daemon, check=True, capture_output=True)
    assert (again.stdout, again.stderr) == (b"", b"")


def test_what_a_killed_supervisor_leaves_is_found_by_its_label_and_by_its_mark(start, daemon):
    process, _ = start(args=(DEAF,))
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    assert marked()
    runtime = find("docker", environ=daemon).runtime
    assert end_containers(runtime, MARK.replace("/1", "/2"), daemon) == []
    assert container_names(daemon)
    assert end_containers(runtime, MARK, daemon) == []
    assert container_names(daemon) == []
    awaited(lambda: not marked())


def marked():
    """Processes of the attempt by their environment, which containers do not hide."""
    paths = []
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal() or int(path.name) == os.getpid():
            continue
        try:
            entries = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"TRAINSHED_JOB={MARK}".encode() in entries:
            paths.append(path)
    return paths


def test_whose_a_container_is_says_its_first_process(start, daemon):
    process, _ = start(args=(DEAF,))
    assert process.stdout.readline() == "up\n"
    runtime = find("docker", environ=daemon).runtime
    roots = ContainerRoots(runtime, daemon)
    assert roots.read_cached() == {}
    ((pid, key),) = roots.refresh().items()
    assert str(key) == MARK
    assert f"TRAINSHED_JOB={MARK}" in Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert roots.read_cached() == {pid: key}
    end_containers(runtime, MARK, daemon)
    awaited(lambda: roots.read_cached() == {})
