"""A replica is a machine of its own: its shells, its pip and its folders, in each mode."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from engines.attempts import KEY, OTHER, ended, engine_at, folder, lines, marked, texts
from engines.isolating import isolation_of
from engines.test_mounts import inside
from trainshed.engines.environments.replica_tools import ReplicaTools
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.mounts import allowed, private_mounts
from trainshed.engines.isolation.replica_machine import machine_of
from trainshed.engines.isolation.view import PrivateFolders
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import MetricsPlan
from trainshed.model.launch_plan import Environment, Owner

FULL = pytest.mark.full
MODES = ("users", "sandbox", "landlock", "none")
#: Modes in which a replica has mounts, also where the server is no root.
MOUNTING = ("users", "sandbox")


#: A package for each way to install one: they must not help each other.
EXTRA = ("by_pip", "by_user", "by_module", "by_script", "by_venv")


def wheel_of(folder, name, version="1.0"):
    """A wheel of one module, which says its version."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{name}.py", f"version = {version!r}\ndef main(): print({name!r}, version)\n"
        )
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            f"{info}/entry_points.txt", f"[console_scripts]\n{name}-run = {name}:main\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    path.chmod(0o644)
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    folder.chmod(0o755)
    for version in ("1.0", "2.0"):
        for name in ("there", *EXTRA):
            wheel_of(folder, name, version)
    return folder


@pytest.fixture(scope="session")
def environment(tmp_path_factory, wheels):
    """A mapped environment as uv makes it: without pip, with a package and a console script."""
    path = tmp_path_factory.mktemp("environments") / "torch-2"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    (site,) = path.glob("lib/python*/site-packages")
    with zipfile.ZipFile(next(wheels.glob("there-1.0-*"))) as wheel:
        wheel.extractall(site)
    script = path / "bin/there-run"
    script.write_text(f"#!{path}/bin/python\nfrom there import main\nmain()\n")
    script.chmod(0o755)
    return path


@pytest.fixture
def run(root, mark, tmp_path, wheels):
    """Run a shell script as a replica; its lines."""
    engines = {}

    def running(mode, python, script, *, key=KEY, reads=(), **more):
        if mode not in engines:
            isolation = Isolation(mode)
            if mode != "none":
                isolation = isolation_of(mode, tmp_path / "secret")
            engines[mode] = engine_at(root, isolation=isolation, pass_env=())
        plan = marked(mark, "")
        (replica,) = plan.replicas
        path = f"{Path(python).parent}:{os.environ['PATH']}"
        env = {"PATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        replica = replace(
            replica, argv=("sh", "-c", script), env={**replica.env, **env}, python=str(python)
        )
        plan = replace(
            plan,
            replicas=(replica,),
            environment=Environment(python=str(python)),
            owner=Owner(project="alpha", number=7),
            reads=(str(wheels), *reads),
            **more,
        )
        engines[mode].launch(key, plan, ())
        end = ended(engines[mode], key)
        output = texts(root, key=key)
        assert end.outcome.exit_code == 0, output
        return output

    return running


def state_of(folder):
    """What the files of a folder are, so that any change is seen."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in Path(folder).rglob("*")
        if "__pycache__" not in path.parts and not path.is_dir()
    }


SAYS = "python -c 'import {0}; print({0}.version)'"
#: What people write, and the last line of it.
INSTALLS = {
    f"pip install by_pip && {SAYS.format('by_pip')}": "2.0",
    f"pip3 install --user by_user && {SAYS.format('by_user')}": "2.0",
    f"pip install there==2.0 && {SAYS.format('there')} && there-run": "there 2.0",
    f"pip install --user there==2.0 && {SAYS.format('there')} && there-run": "there 2.0",
    "pip install by_script && by_script-run": "by_script 2.0",
    "python -m venv --system-site-packages v && v/bin/pip install by_venv && v/bin/python -c"
    " 'import by_venv, there; print(by_venv.version, there.version)'": "2.0 1.0",
    "python3 -m pip install by_module && python -m venv --system-site-packages --without-pip v &&"
    " v/bin/python -c 'import by_module as m, there; print(m.version, there.version)'": "2.0 1.0",
}
#: Others that replace a package show that pip installs one with its script, for the user too.
AS_OTHERS = {script for place, script in enumerate(INSTALLS) if place in {0, 3, 4}}


def install_cases():
    """Each script in each mode; ``make test`` has one mode, and each way of installing once."""
    for mode, script in itertools.product(MODES, INSTALLS):
        is_short = mode == MODES[0] and script not in AS_OTHERS
        yield pytest.param(mode, script, marks=() if is_short else FULL)


def test_the_import_path_of_installed_packages_wins_over_that_of_the_plan(tmp_path):
    """The plan's PYTHONPATH has the trainer library; what a job installs is put before it."""
    machine = machine_of(
        "users", AttemptFolder(str(tmp_path)), "master-replica-0", "", ReplicaTools("/t", None)
    )
    env = {"PYTHONPATH": "/packages:/library", "HOME": "/mine"}
    plan = {"PYTHONPATH": "/library", "HOME": "/mine"}
    variables = machine.variables(env, "/env/bin/python", own=plan)
    assert (variables["PYTHONPATH"], variables["HOME"]) == ("/packages:/library", "/mine")
    assert machine.variables({}, "/env/bin/python", own={})["HOME"] == "/root"


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "script"), list(install_cases()))
def test_installing_goes_to_the_replica_and_never_to_the_mapped_environment(
    mode, script, run, environment
):
    before = state_of(environment)
    output = run(mode, environment / "bin/python", script.replace("install", "install -q"))
    assert output[-1] == INSTALLS[script]
    assert state_of(environment) == before


#: With mounts and without; the other modes repeat these.
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode in {"users", "none"} else FULL) for mode in MODES]
)
def test_the_next_attempt_does_not_see_what_was_installed(mode, run, environment):
    python = environment / "bin/python"
    run(mode, python, "pip install -q by_pip && pip install -q --user by_user")
    script = "python -c 'import by_pip' || python -c 'import by_user' || echo gone"
    assert run(mode, python, script, key=OTHER)[-1] == "gone"


PLACES = ("/workspace", "/app", "/model", "/root", "/var/hypertune")
LOOKS = """
import json, os, sys
found = {}
for place in sys.argv[1:]:
    try:
        before = os.listdir(place)
        with open(f"{place}/file", "w") as file:
            file.write("here")
        found[place] = [before, open(f"{place}/file").read()]
    except OSError as error:
        found[place] = type(error).__name__
print(json.dumps([found, os.path.expanduser("~")]))
"""


def here(place):
    """What the machine has at a place, for comparing."""
    path = Path(place)
    return sorted(path.iterdir()) if path.is_dir() else None


@pytest.mark.parametrize("mode", MODES)
def test_the_folders_that_trainers_expect_are_private_and_leave_no_trace(mode, run):
    places = PLACES if mode in MOUNTING else tuple(place for place in PLACES if place != "/root")
    machine = {place: here(place) for place in ("/", *places)}
    command = f"python -c '{LOOKS}' {' '.join(places)}"
    for key in (KEY, OTHER):  # the second finds nothing of the first
        contents, home = json.loads(run(mode, sys.executable, command, key=key)[-1])
        if mode in MOUNTING or allowed():
            assert {place: text for place, (_, text) in contents.items()} == dict.fromkeys(
                places, "here"
            )
            assert not any("file" in before for before, _ in contents.values())
        if mode in MOUNTING:
            assert home == "/root"
    assert {place: here(place) for place in ("/", *places)} == machine


@pytest.mark.parametrize("mode", MOUNTING)
def test_what_a_trial_writes_to_googles_place_is_its_report(mode, run, root):
    """As programs do that were written for Google and do not read CLOUD_ML_HP_METRIC_FILE."""
    file = folder(root) / "hypertune/output.metrics"
    line = '{"loss": 0.5, "global_step": "1", "timestamp": 1.0, "trial": "1"}'
    metrics = MetricsPlan(files=(str(file),), tags=("loss",))
    run(mode, sys.executable, f"echo '{line}' > /var/hypertune/output.metrics", metrics=metrics)
    assert json.loads(file.read_text())["loss"] == 0.5


@pytest.mark.parametrize("mode", MODES)
def test_a_login_shell_keeps_the_path_and_apt_is_refused_in_one_line(mode, run, environment):
    script = """
test "$(bash -lc 'echo $PATH')" = "$PATH" && echo same
bash -lc 'python -c "import there; print(there.version)"'
bash -lc 'PATH=/mine:$PATH; bash -lc "echo \\$PATH"' | cut -c 1-6
apt-get install -y libgl1 2>&1
echo "status $?"
"""
    output = run(mode, environment / "bin/python", script)
    if mode == "none":  # HOME is that of the server's user, with its profile
        output = ["same", *output] if output[0] != "same" else output
    assert output[:2] == ["same", "1.0"]
    assert output[-1] == "status 100"
    assert output[-2].startswith("apt-get: a job cannot install packages of the system; ")
    if mode in MOUNTING:
        assert output[2] == "/mine:"
    assert len(output) == 5


def test_what_a_place_has_on_the_machine_is_read_and_not_written(tmp_path):
    """A machine with datasets in /workspace shows them, and keeps them as they are."""
    if not allowed():
        pytest.skip("no right to mount: run the tests as root")
    place, own, skeleton = (tmp_path / name for name in ("place", "own", "skeleton"))
    for path in (place, own, skeleton):
        path.mkdir()
    (place / "data").write_text("7")
    more = PrivateFolders(str(skeleton), [(str(own), str(place))])
    code = f"import os; os.chdir({str(place)!r}); print(open('data').read()); open('data', 'w')"
    output, status = inside(private_mounts(None, (), more), code, tmp_path)
    assert (output, status) == ("7\n", 0)
    assert (place / "data").read_text() == "7"
    assert (own / "data").read_text() == ""


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("kind", ["with pip", "the interpreter itself", "an old one"])
def test_every_kind_of_interpreter_installs(kind, run, tmp_path_factory):
    """Such as `python -m venv` makes, and one that is no virtual environment."""
    python = interpreter_of(kind, tmp_path_factory)
    script = (
        f"pip --version && pip install -q by_pip && {SAYS.format('by_pip')} && python -m pip list"
    )
    before = state_of(python.parent)
    output = run("users", python, script)
    assert output[1] == "2.0"
    assert state_of(python.parent) == before


def interpreter_of(kind, tmp_path_factory):
    if kind == "the interpreter itself":
        return Path(os.path.realpath(sys.executable))
    if kind == "an old one":
        paths = sorted(Path.home().glob(".pyenv/versions/3.[678].*/bin/python"))
        if not paths:
            pytest.skip("no old Python here: install one with pyenv")
        return paths[0]
    path = tmp_path_factory.mktemp("environments") / "whole"
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    return path / "bin/python"


@pytest.mark.parametrize("mode", MOUNTING)
def test_home_can_be_written_beside_what_is_shown_of_the_servers_own_home(mode, run):
    """A server keeps libraries in its own ~/.cache, and an interpreter may lie in its home."""
    if os.geteuid() or Path.home() != Path("/root"):
        pytest.skip("needs a server whose home is /root: run the tests as root with HOME=/root")
    directory = Path(
        tempfile.mkdtemp(prefix="trainshed-test-", dir=make_folder(Path.home() / ".cache"))
    )
    directory.chmod(0o755)
    (directory / "library").write_text("7")
    try:
        script = f"cat {directory}/library && mkdir ~/.cache/mylib && echo 8 > ~/.cache/mylib/x"
        output = run(
            mode, sys.executable, f"{script} && cat ~/.cache/mylib/x", reads=(str(directory),)
        )
    finally:
        shutil.rmtree(directory)
    assert output[-1] == "78"


def make_folder(folder):
    folder.mkdir(exist_ok=True)
    return folder


WRITES_LOCALLY = """python -c '
import os
os.makedirs("gs://my-bucket/naive")
open("gs://my-bucket/naive/model", "w").close()
'"""


@pytest.mark.parametrize("mode", MODES)
def test_a_folder_gs_in_the_work_folder_is_told_in_the_log_once(mode, run, root, tmp_path):
    run(mode, sys.executable, WRITES_LOCALLY, binds=((str(tmp_path), "/gcs/my-bucket"),))
    (warning,) = [line for line in lines(root) if "local folder gs:" in line.text]
    assert warning.severity == "WARNING"
    assert warning.text.startswith(
        "the program wrote to a local folder gs:/my-bucket, and not to the bucket; open "
        "gs://my-bucket by TensorFlow's file API or a storage client"
    )
    has_gcs = mode in MOUNTING or (mode == "none" and allowed())
    assert ("or write to /gcs/my-bucket/..." in warning.text) == has_gcs


def test_a_link_gs_in_the_work_folder_is_not_followed(run, root):
    run("users", sys.executable, "ln -s /root gs:")
    assert not [line for line in lines(root) if "local folder" in line.text]
