"""What a program reaches behind the walls of each mode, and that it runs nowhere else."""

import json
import os
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, folder, marked, read_answer, texts
from engines.isolating import UIDS, isolation_of
from trainshed.engines.isolation import choose, device_nodes, interpreters, landlock, users
from trainshed.engines.isolation.choose import IsolationOptions, Machine, choose_isolation
from trainshed.engines.isolation.modes import CALL_FAMILIES
from trainshed.engines.isolation.mounts import write_passwd
from trainshed.engines.isolation.view import PrivateFolders, ReplicaView
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.launch_plan import Owner

WALLS = ("users", "landlock", "sandbox")
NUMBER = 7
UID = UIDS[0] + NUMBER

#: Tries each thing, and says in one line of JSON what became of it.
TRIES = """
import json, os, socket, stat, sys, tempfile
def outcome_of(act):
    try:
        return act() or "done"
    except OSError as error:
        return type(error).__name__
def status(word):
    line = next(l for l in open("/proc/self/status") if l.startswith(word + ":"))
    return line.split()[1]
secret, bucket, server = sys.argv[1:]
found = {
    "secret": outcome_of(lambda: open(secret + "/token").read()),
    "listing": outcome_of(lambda: len(os.listdir(secret))),
    "planted": outcome_of(lambda: open(secret + "/planted", "w").close()),
    "bucket": outcome_of(lambda: open(bucket + "/result", "w").write("7") and "written"),
    "there": outcome_of(lambda: open(bucket + "/data").read()),
    "work": outcome_of(lambda: open("model", "w").write("7") and "written"),
    "tmp": outcome_of(lambda: tempfile.NamedTemporaryFile().write(b"7") and "written"),
    "stdout": outcome_of(lambda: open("/dev/stdout", "w").close()),
    "environ": outcome_of(lambda: open("/proc/" + server + "/environ").read() and "read"),
    "signal": outcome_of(lambda: os.kill(int(server), 0)),
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "caps": status("CapEff") + status("CapBnd"), "nnp": status("NoNewPrivs"),
    "umask": oct(os.umask(0)), "home": os.environ["HOME"], "cwd": os.getcwd(),
}
print(json.dumps(found))
"""


@pytest.fixture
def world(root, mark, tmp_path):
    """A server's folder with a secret and the buckets of two projects; one of them is the job's."""
    data = tmp_path
    (data / "secret").mkdir()
    (data / "secret/token").write_text("hush")
    (data / "secret/token").chmod(0o666)
    (data / "secret").chmod(0o777)
    (data / "own").mkdir(mode=0o700)
    (data / "own/data").write_text("7")
    (data / "own/data").chmod(0o600)

    def run(mode, code, *arguments, **more):
        engine = engine_at(root, isolation=isolation_of(mode, data), pass_env=())
        plan = marked(mark, code)
        (replica,) = plan.replicas
        argv = (*replica.argv, *map(str, arguments))
        plan = replace(
            plan,
            replicas=(replace(replica, argv=argv, **more),),
            owner=Owner(project="alpha", number=NUMBER),
            binds=((str(data / "own"), "/gcs/own"),),
        )
        engine.launch(KEY, plan, ())
        return ended(engine)

    return run


@pytest.mark.parametrize("mode", WALLS)
def test_a_program_has_its_own_and_nothing_of_others(mode, world, root, tmp_path):
    end = world(mode, TRIES, tmp_path / "secret", tmp_path / "own", os.getpid())
    assert end.outcome.exit_code == 0, (end.outcome, texts(root))
    report = json.loads(read_answer(root))
    refused = {"FileNotFoundError", "PermissionError", "ProcessLookupError"}
    names = ("secret", "listing", "planted", "environ", "signal")
    assert {name: report[name] for name in names if report[name] not in refused} == {}
    assert [report[name] for name in ("bucket", "work", "tmp")] == ["written"] * 3
    assert (report["there"], report["stdout"]) == ("7", "done")
    assert (report["nnp"], report["umask"]) == ("1", "0o77")
    homes = {"landlock": str(folder(root) / "machines/master-replica-0/root")}
    assert report["home"] == homes.get(mode, "/root")
    assert report["cwd"] == str(folder(root) / "work")
    assert (tmp_path / "own/result").read_text() == "7"
    if mode == "users":
        assert (report["uid"], report["gid"], report["groups"]) == (UID, UID, [UID])
        assert set(report["caps"]) == {"0"}
        assert (tmp_path / "own/result").stat().st_gid == UID


def test_the_temporary_files_of_a_job_are_its_own(world, root):
    name = f"trainshed-test-{os.getpid()}"
    code = f"import os; open('/tmp/{name}', 'w').close(); print(sorted(os.listdir('/tmp')))"
    assert world("users", code).outcome.exit_code == 0
    assert name in read_answer(root)
    assert not Path("/", "tmp", name).exists()
    assert (folder(root) / "tmp" / name).exists()


def test_what_a_replica_shares_in_memory_is_its_own(world, root):
    other = Path("/dev/shm", f"trainshed-test-{os.getpid()}")  # noqa: S108 - everybody's
    other.touch()
    try:
        code = "import os; open('/dev/shm/own', 'w').close(); print(os.listdir('/dev/shm'))"
        assert world("users", code).outcome.exit_code == 0
    finally:
        other.unlink()
    assert read_answer(root) == "['own']"


def test_processes_of_other_users_are_not_there(world, root):
    code = "import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdecimal()))"
    assert world("users", code).outcome.exit_code == 0
    assert 1 not in json.loads(read_answer(root))


@pytest.mark.parametrize("mode", WALLS)
def test_only_what_is_passed_on_of_the_server_s_environment_reaches_a_program(
    mode, root, mark, monkeypatch, tmp_path
):
    monkeypatch.setenv("AWS_SECRET", "hush")
    monkeypatch.setenv("TEAM_NAME", "alpha")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hush@index.example")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    engine = engine_at(root, isolation=isolation_of(mode, tmp_path), pass_env=("TEAM_*",))
    plan = marked(mark, "import json, os; print(json.dumps(dict(os.environ)))")
    engine.launch(KEY, replace(plan, owner=Owner(project="alpha", number=0)), ())
    assert ended(engine).outcome.exit_code == 0
    env = json.loads(read_answer(root))
    assert (env["TEAM_NAME"], env["LC_ALL"]) == ("alpha", "C.UTF-8")
    assert not {"AWS_SECRET", "PIP_INDEX_URL"} & set(env)
    assert "hush" not in str(env)


def test_a_wall_that_cannot_be_built_keeps_the_program_from_running(world, root, monkeypatch):
    """The supervisor finds no folder for the private /tmp: it says so, and starts nothing."""
    monkeypatch.setattr("trainshed.engines.isolation.compose.make_ready", lambda *_: None)
    end = world("users", "print('ran')")
    assert "isolation users" in end.outcome.message
    assert end.outcome.message.startswith("master-replica-0 cannot be started: ")
    assert texts(root) == []


def test_a_project_beyond_the_range_of_users_is_told_so(root, mark):
    isolation = isolation_of("users")._replace(uids=(200_000, 200_001))
    engine = engine_at(root, isolation=isolation)
    plan = replace(marked(mark, "pass"), owner=Owner(project="third", number=2))
    with pytest.raises(EngineFault, match=r"\[isolation\] uids = \[200000, 200001\].*third"):
        engine.launch(KEY, plan, ())


def test_the_log_says_how_a_job_is_kept_apart(root, world):
    world("landlock", "pass")
    assert "isolation: landlock" in texts(root, task="service")


def test_without_isolation_each_job_is_warned(root, mark):
    machine = Machine(is_root=False, no_containers="none", try_mode=lambda *_: "no")
    engine = engine_at(root, isolation=choose_isolation(IsolationOptions(), machine))
    engine.launch(KEY, marked(mark, "pass"), ())
    ended(engine)
    (warning,) = [text for text in texts(root, task="service") if "isolation none" in text]
    assert "run as the server's user" in warning


ROOT = Machine(is_root=True, no_containers="no docker", try_mode=lambda *_: "")
USER = ROOT._replace(is_root=False)


def only(*works):
    return lambda mode, _: "" if mode in works else f"{mode} is broken"


@pytest.mark.parametrize(
    ("options", "machine", "mode"),
    [
        (IsolationOptions(), ROOT, "users"),
        (IsolationOptions(), USER, "sandbox"),
        (IsolationOptions(), USER._replace(try_mode=only("landlock")), "landlock"),
        (IsolationOptions(), USER._replace(try_mode=only()), "none"),
        (IsolationOptions(mode="none"), USER, "none"),
        (IsolationOptions(mode="none", allow_root_jobs=True), ROOT, "none"),
        (IsolationOptions(mode="landlock", allow_root_jobs=True), ROOT, "landlock"),
        (IsolationOptions(allow_root_jobs=True), ROOT._replace(try_mode=only()), "none"),
        (
            IsolationOptions(allow_root_jobs=True),
            ROOT._replace(try_mode=only("landlock")),
            "landlock",
        ),
        (IsolationOptions(require=("users", "container")), ROOT, "users"),
        (IsolationOptions(mode="container"), ROOT._replace(no_containers=""), "container"),
    ],
)
def test_the_strongest_that_works_is_chosen(options, machine, mode):
    assert choose_isolation(options, machine).mode == mode


@pytest.mark.parametrize(
    ("options", "machine", "words"),
    [
        (IsolationOptions(mode="users"), USER, "only root can run programs as other users"),
        (IsolationOptions(mode="none"), ROOT, "allow_root_jobs"),
        (IsolationOptions(mode="landlock"), ROOT, "allow_root_jobs"),
        (IsolationOptions(), ROOT._replace(try_mode=only()), "users is broken.*allow_root_jobs"),
        (IsolationOptions(mode="landlock"), USER._replace(try_mode=only()), "landlock is broken"),
        (IsolationOptions(mode="container"), ROOT, "no docker"),
        (IsolationOptions(require=("users",)), USER, 'require accepts "users".*"sandbox"'),
        (
            IsolationOptions(require=("landlock",)),
            USER._replace(try_mode=only()),
            "landlock is broken",
        ),
    ],
)
def test_what_cannot_be_had_stops_the_server(options, machine, words):
    with pytest.raises(UsageFault, match=words):
        choose_isolation(options, machine)


def test_calls_that_no_trainer_needs_are_refused_unless_the_settings_allow_them():
    isolation = choose_isolation(IsolationOptions(), ROOT)
    assert isolation.refused_calls == CALL_FAMILIES
    assert isolation.notes == ("isolation: users",)
    allowing = choose_isolation(IsolationOptions(seccomp_allow=("perf",)), ROOT)
    assert set(CALL_FAMILIES) - set(allowing.refused_calls) == {"perf"}
    assert allowing.notes == ("isolation: users, seccomp allows perf",)
    without = choose_isolation(IsolationOptions(seccomp="none"), ROOT)
    assert without.refused_calls == ()
    assert without.notes == ("isolation: users, system calls are not filtered",)
    assert choose_isolation(IsolationOptions(mode="none"), USER).refused_calls == ()


@pytest.mark.parametrize("mode", WALLS)
@pytest.mark.parametrize(("refused", "filters"), [(CALL_FAMILIES, "2"), ((), "0")])
def test_the_settings_decide_whether_calls_are_filtered(mode, refused, filters, root, mark):
    isolation = isolation_of(mode)._replace(refused_calls=refused)
    engine = engine_at(root, isolation=isolation, pass_env=())
    plan = marked(mark, "print(open('/proc/self/status').read())")
    engine.launch(KEY, replace(plan, owner=Owner(project="alpha", number=NUMBER)), ())
    assert ended(engine).outcome.exit_code == 0, texts(root)
    (line,) = [line for line in texts(root) if line.startswith("Seccomp:")]
    limits_of_others = mode == "landlock"
    assert line.split()[1] == ("2" if limits_of_others else filters)


BINDS = """
import socket
for port in PORTS:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
            print(port, "bound")
        except OSError as error:
            print(port, type(error).__name__)
"""


@pytest.mark.parametrize("refuses", [True, False])
def test_landlock_refuses_the_ports_of_the_server_where_the_settings_say_so(refuses, root, mark):
    if landlock.version() < landlock.TCP_SINCE:
        pytest.skip("this kernel's Landlock has no rules for TCP: Linux 6.7 and newer have")
    isolation = isolation_of("landlock")._replace(refuses_ports=refuses)
    engine = engine_at(root, isolation=isolation, pass_env=())
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        own, other = (probe.getsockname()[1] for probe in probes)
    plan = marked(mark, BINDS.replace("PORTS", f"({own}, {other}, 0)"))
    owner = Owner(project="alpha", number=NUMBER)
    engine.launch(KEY, replace(plan, owner=owner, server_ports=(own,)), ())
    assert ended(engine).outcome.exit_code == 0, texts(root)
    lines = [line for line in texts(root) if line.split()[0].isdecimal()]
    outcome = "PermissionError" if refuses else "bound"
    assert lines == [f"{own} {outcome}", f"{other} bound", "0 bound"]


@pytest.mark.parametrize(
    ("setting", "version", "refuses", "note"),
    [
        (None, 3, False, "Linux 6.7"),
        (None, 4, True, ""),
        (None, 6, False, ""),
        (True, 6, True, ""),
        (False, 4, False, ""),
    ],
)
def test_ports_are_refused_by_themselves_where_jobs_could_kill_what_holds_them(
    setting, version, refuses, note, monkeypatch
):
    monkeypatch.setattr(landlock, "version", lambda: version)
    isolation = choose_isolation(IsolationOptions(mode="landlock", refuse_ports=setting), USER)
    assert isolation.refuses_ports is refuses
    assert note in isolation.description
    assert bool(isolation.ports_note) is bool(note)


def test_a_mode_is_tried_before_it_is_used():
    for mode in WALLS:
        isolation_of(mode)
    assert choose.try_isolation("sandbox-that-nobody-knows", UIDS[0])


def device(minor, gpu_uuid=""):
    return GpuDevice(uuid=f"GPU-{minor}", name="NVIDIA L4", minor=minor, gpu_uuid=gpu_uuid)


def test_the_nodes_of_a_lease_are_its_gpus_and_no_other(tmp_path):
    dev = str(tmp_path)
    (tmp_path / "nvidia-caps").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1"):
        (tmp_path / name).touch()
    own = device_nodes.list_nodes_of([device(1)], dev)
    assert own == (f"{dev}/nvidia1",)
    unleased = device_nodes.list_unleased_nodes(own, dev)
    assert unleased == (f"{dev}/nvidia-caps/nvidia-cap1", f"{dev}/nvidia0")
    part = device_nodes.list_nodes_of([device(0, "GPU-a")], dev)
    assert part == (f"{dev}/nvidia0", f"{dev}/nvidia-caps/nvidia-cap1")
    assert device_nodes.list_nodes_of([device(None)], dev) == ()


OPENS = """
import os
for path in os.environ["NODES"].split():
    try:
        os.close(os.open(path, os.O_RDWR))
        print(path[-1], "open")
    except OSError as error:
        print(path[-1], type(error).__name__)
"""


def test_the_node_of_another_job_s_gpu_cannot_be_opened(tmp_path, monkeypatch):
    """The nodes are /dev/null by other names: what counts is who may open which."""
    if os.geteuid():
        pytest.skip("only root makes device nodes: run the tests as root")
    isolation_of("users")
    dev = tmp_path / "dev"
    dev.mkdir()
    try:
        for number in range(2):
            os.mknod(dev / f"nvidia{number}", 0o020666, os.makedev(1, 3))
            (dev / f"nvidia{number}").chmod(0o666)
    except PermissionError:
        pytest.skip("device nodes may not be made here: run the tests outside of a container")
    view = ReplicaView(
        "users",
        writes=(str(dev),),
        reads=interpreters.folders_of(sys.executable),
        devices=(str(dev / "nvidia1"),),
        uid=UID,
        gid=UID,
    )
    monkeypatch.setattr(device_nodes.list_unleased_nodes, "__defaults__", (str(dev),))
    nodes = " ".join(str(dev / f"nvidia{number}") for number in range(2))
    assert printed(view, OPENS, {"NODES": nodes}) == ["0 PermissionError", "1 open"]


def test_replicas_that_have_gpus_share_memory_with_each_other():
    """NCCL takes those that have another /dev/shm for replicas on other machines."""
    isolation_of("users")
    view = ReplicaView("users", reads=interpreters.folders_of(sys.executable), uid=UID, gid=UID)
    code = "import os; print(os.stat('/dev/shm').st_dev)"
    machine = [str(os.stat("/dev/shm").st_dev)]  # noqa: S108, PTH116 - everybody's
    assert printed(view._replace(has_peers=True), code, {}) == machine
    assert printed(view, code, {}) != machine


def test_a_program_finds_its_user_where_the_machine_has_none(tmp_path):
    """As gcloud's rsync does, and getpass."""
    isolation_of("users")
    passwd = tmp_path / "passwd"
    write_passwd(str(passwd), UID, UID, "/home-of-job")
    view = ReplicaView("users", reads=interpreters.folders_of(sys.executable), uid=UID, gid=UID)
    code = "import os, pwd; print(*pwd.getpwuid(os.getuid())[:6], pwd.getpwuid(0)[0])"
    mounts = users.Mounts(more=PrivateFolders(passwd=str(passwd)))
    assert printed(view, code, {}, mounts) == [f"trainshed x {UID} {UID}  /home-of-job root"]


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_program_never_writes_to_the_machines_folder_in_place_of_its_own(tmp_path, is_mounted):
    """A mount that fails is said on stderr, and the replica starts all the same."""
    isolation_of("landlock")
    own, machine, root = (tmp_path / name for name in ("own", "machine", "root"))
    own.mkdir()
    machine.mkdir()
    folders = ((str(own), str(machine)),)
    reads = interpreters.folders_of(sys.executable)
    view = ReplicaView("landlock", reads=reads, folders=folders)
    more = PrivateFolders(root=str(root), folders=folders) if is_mounted else PrivateFolders()
    code = f"open({str(machine / 'file')!r}, 'w').close()"
    code = f"try:\n {code}\nexcept OSError as error:\n print(type(error).__name__)"
    lines = printed(view, code, {}, users.Mounts(more=more), landlock.make_enter)
    assert lines == ([] if is_mounted else ["PermissionError"])
    assert (own / "file").exists() == is_mounted
    assert not (machine / "file").exists()


def printed(view, code, env, mounts=users.Mounts(), enter=users.make_enter):  # noqa: B008 - a constant
    """The lines of a program that is started as a replica is."""
    go = enter(view, mounts)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writer, 1)
            go()
            os.execve(sys.executable, [sys.executable, "-c", code], env)  # noqa: S606 - as there
        finally:
            os._exit(127)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(reader, encoding="ascii") as lines:
        return lines.read().splitlines()
