"""Packages are strangers' programs too: their setup.py runs behind the walls of their project."""

import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines.attempts import KEY, ended, engine_at, marked, read_answer, texts
from engines.isolating import UIDS, isolation_of
from trainshed.engines.environments import cache as environments
from trainshed.engines.environments.builder import Builder
from trainshed.engines.isolation import compose
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.supervise.kernel.cgroups import offers
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment, Owner

NUMBER = 7
#: A process that a build leaves behind is known by it.
SLEEPS_S = f"600.{os.getpid()}"

#: What a build sees goes into the package, where the job can read it.
SETUP = """
import json, os, subprocess
from setuptools import setup
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
found = {
    "uid": os.getuid(),
    "secret": tried(lambda: open(os.path.join(%(data)r, "secret")).read()),
    "planted": tried(lambda: open(os.path.join(%(cache)r, "planted"), "w").close()),
    "other": tried(lambda: open(%(cache)r + "/projects/3/trainer.py").read()),
    "beside": tried(lambda: open("../../planted", "w").close()),
    "environ": [os.environ.get(name) for name in ("AWS_SECRET", "SSH_AUTH_SOCK")],
}
subprocess.Popen(["sleep", "%(sleeps)s"], start_new_session=True, **dict.fromkeys(
    ["stdin", "stdout", "stderr"], subprocess.DEVNULL))

open("trainer/found.py", "w").write("FOUND = " + repr(found))
setup(name="trainer", version="0.1", packages=["trainer"])
"""
TRAINS = """
import json, trainer, trainer.found
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
place = trainer.__path__[0]
changed = tried(lambda: open(place + "/found.py", "w").close())
planted = tried(lambda: open(place + "/planted.py", "w").close())
print(json.dumps({**trainer.found.FOUND, "changed": changed, "added": planted}))
"""


@pytest.mark.parametrize("mode", ["users", "landlock"])
def test_a_package_is_built_as_its_project_and_its_environment_is_not_the_jobs_to_change(
    mode, root, mark, tmp_path, monkeypatch
):
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("AWS_SECRET", "hush")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    data, cache = tmp_path, tmp_path / "cache"
    (data / "secret").write_text("hush")
    (cache / "projects/3").mkdir(parents=True)
    (cache / "projects/3/trainer.py").write_text("pass")
    bucket = data / "buckets/own"
    (bucket / "source/trainer").mkdir(parents=True)
    (bucket / "source/trainer/__init__.py").touch()
    (bucket / "source/setup.py").write_text(
        SETUP % {"data": str(data), "cache": str(cache), "sleeps": SLEEPS_S}
    )
    engine = engine_at(root, isolation=isolation_of(mode, data), pass_env=(), cache_dir=cache)
    plan = replace(
        marked(mark, TRAINS),
        owner=Owner(project="alpha", number=NUMBER),
        binds=((str(bucket), "/gcs/own"),),
        environment=Environment(
            python=sys.executable,
            packages=(str(bucket / "source"),),
            buckets=str(data / "buckets"),
        ),
    )
    engine.launch(KEY, plan, ())
    end = ended(engine).outcome
    assert end.exit_code == 0, (end, texts(root), texts(root, task="service"))
    report = json.loads(read_answer(root))
    refused = {"FileNotFoundError", "PermissionError", "OSError"}
    names = ("secret", "planted", "other", "beside", "changed", "added")
    assert {name: report[name] for name in names if report[name] not in refused} == {}
    assert report["environ"] == [None, None]
    assert report["uid"] == (UIDS[0] + NUMBER if mode == "users" else os.geteuid())
    (home,) = [
        folder for folder in (cache / f"projects/{NUMBER}").iterdir() if len(folder.name) == 40
    ]
    assert {path.stat().st_uid for path in home.rglob("*")} == {os.geteuid()}
    assert not [path for path in home.rglob("*") if path.stat().st_mode & 0o022]
    assert not running(f"sleep\0{SLEEPS_S}\0")


#: A setup.py that is never content; it says how far it came.
BOMB = """
import os, time
from setuptools import setup
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            while True:  # what it has left may go on talking
                print(count, flush=True)
                time.sleep(0.5)
        count += 1
except OSError:
    pass
open("trainer/found.py", "w").write(f"COUNT = {count}")
setup(name="trainer", version="0.1", packages=["trainer"])
"""
PROCESSES_MAX = 100


@pytest.mark.skipif(not offers("pids"), reason="no pids cgroup here: run the tests as root")
@pytest.mark.parametrize(
    "mode",
    [  # one cgroup, whatever the walls
        pytest.param("users", marks=pytest.mark.full),
        "landlock",
        pytest.param("sandbox", marks=pytest.mark.full),
    ],
)
def test_a_build_has_no_more_processes_than_a_replica(mode, root, mark, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    source = tmp_path / "source"
    (source / "trainer").mkdir(parents=True)
    (source / "trainer/__init__.py").touch()
    (source / "setup.py").write_text(BOMB)
    engine = engine_at(
        root,
        isolation=isolation_of(mode, tmp_path),
        cache_dir=tmp_path / "cache",
        processes_max=PROCESSES_MAX,
    )
    plan = replace(
        marked(mark, "import trainer.found; print(trainer.found.COUNT)"),
        owner=Owner(project="alpha", number=NUMBER),
        environment=Environment(python=sys.executable, packages=(str(source),)),
    )
    engine.launch(KEY, plan, ())
    end = ended(engine).outcome
    assert end.exit_code == 0, (end, texts(root, task="service"))
    assert 0 < int(read_answer(root)) < PROCESSES_MAX


def running(words):
    """The processes with this command."""
    paths = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            paths += [path] if path.read_text() == words else []
    return paths


def test_what_a_build_puts_in_the_place_of_its_packages_is_not_shown_to_jobs(tmp_path, monkeypatch):
    (tmp_path / "secret").mkdir()
    (tmp_path / "wheel.whl").touch()

    def links(_environment, _python, place, *_, **__):
        place.target.parent.mkdir()
        place.target.symlink_to(tmp_path / "secret")

    monkeypatch.setattr(environments, "install", links)
    environment = Environment(python=sys.executable, packages=(str(tmp_path / "wheel.whl"),))
    with pytest.raises(EngineFault, match="the build has replaced the folder"):
        environments.prepare(environment, cache_dir=tmp_path / "cache", note=print)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_symlink()]


def test_links_in_installed_packages_show_a_job_nothing(tmp_path):
    """Only in folders of the server's own is looked where links lead."""
    for name in ("secret", "home", "library"):
        (tmp_path / name).mkdir()
    for name in ("home", "library"):
        (tmp_path / name / "link").symlink_to(tmp_path / "secret")
    secret, home, library = (str(tmp_path / name) for name in ("secret", "home", "library"))
    assert list(compose._reads((home,), ())) == [home]
    assert list(compose._reads((), (library,))) == [library, secret]


def test_where_only_containers_run_no_package_is_built_outside_of_one(root, mark, tmp_path):
    bucket = tmp_path / "buckets/own"
    (bucket / "source").mkdir(parents=True)
    (bucket / "source/setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    engine = engine_at(
        root, isolation=Isolation("container", UIDS), pass_env=(), cache_dir=tmp_path / "cache"
    )
    packages = (str(bucket / "source"),)
    plan = replace(
        marked(mark, "pass"),
        owner=Owner(project="alpha", number=NUMBER),
        environment=Environment(
            python=sys.executable, packages=packages, buckets=str(tmp_path / "buckets")
        ),
    )
    engine.launch(KEY, plan, ())
    assert "only jobs with an image" in ended(engine).fault
    assert not (tmp_path / "ran").exists()


def test_a_link_in_the_place_of_the_packages_opens_no_file_of_the_machine(tmp_path):
    """Root changed owners and modes of all that it led to: /etc/shadow became readable to all."""
    machine = tmp_path / "etc"
    machine.mkdir(mode=0o700)
    (machine / "shadow").write_text("secret")
    (machine / "shadow").chmod(0o600)
    target = tmp_path / "install" / "target"
    target.parent.mkdir()
    target.symlink_to(machine)
    builder = Builder(owner=compose.ProjectUser(os.geteuid(), os.getegid()))
    with pytest.raises(EngineFault, match="the build has replaced the folder"):
        environments._take_back(builder, target)
    assert machine.stat().st_mode & 0o777 == 0o700
    assert (machine / "shadow").stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_place_of_a_folder_of_a_job_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    folder = AttemptFolder(str(tmp_path / "1" / "1"))
    Path(folder.path).mkdir(parents=True)
    Path(folder.work).symlink_to(outside)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        compose.make_own_folders(SimpleNamespace(metrics=None), folder)
    assert outside.stat().st_mode & 0o777 == 0o755
    Path(folder.work).unlink()
    compose.make_own_folders(SimpleNamespace(metrics=None), folder)
    assert Path(folder.work).stat().st_mode & 0o7777 == 0o700
    assert Path(folder.tmp).stat().st_mode & 0o7777 == 0o1777
