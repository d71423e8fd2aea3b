"""Packages install once for each content, need no network for what is there, and fail clearly."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engines.packages import prepare
from engines.support import (
    DEADLINE_S,
    FOREVER,
    MARK,
    assert_no_survivor,
    cluster,
    plan_of,
    run,
    touching,
    wait_until,
)
from trainshed.engines.environments import cache as environments
from trainshed.engines.environments import content, plan, uv
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

SETUP = """
from setuptools import setup
setup(name='trainer', version='0.1', packages=['trainer'], install_requires=%r)
"""


@pytest.fixture
def tree(tmp_path):
    """The source tree of a trainer package whose one requirement every interpreter here has."""
    root = tmp_path / "source"
    (root / "trainer").mkdir(parents=True)
    (root / "trainer" / "__init__.py").write_text("")
    (root / "trainer" / "task.py").write_text("print('trained')\n")
    (root / "setup.py").write_text(SETUP % ["PyYAML>=5"])
    return root


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    """No test here may need the network, or what an earlier run has left in uv's own cache."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))


@pytest.fixture
def no_uv(monkeypatch):
    def forbid():
        def missing():
            raise AssertionError("uv was asked for")

        monkeypatch.setattr(uv, "find_uv", missing)

    return forbid


def environment(*packages, python=sys.executable, requirements=()):
    return Environment(python=python, packages=tuple(map(str, packages)), requirements=requirements)


def prepared(cache, *packages, **more):
    notes = []
    return prepare(environment(*packages, **more), cache_dir=cache, note=notes.append), notes


def entries(cache):
    """What a cache keeps, but for the lock files."""
    return (
        [p for p in cache.iterdir() if p.suffix not in {".lock", ".used"}] if cache.exists() else []
    )


def run_module(job_python):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(job_python.python_path_entries)}
    command = [job_python.python, "-m", "trainer.task"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def sdist_of(tree, folder):
    path = folder / "trainer-0.1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tree, "trainer-0.1")
    return path


def wheel_of(tree, folder):
    arguments = ["build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([uv.find_uv(), *arguments, "-o", folder / "wheels", tree], check=True)
    (path,) = (folder / "wheels").glob("*.whl")
    return path


def test_a_source_tree_installs_without_network_and_is_left_as_it_was(tree, cache):
    before = sorted(tree.rglob("*"))
    job_python, notes = prepared(cache, tree)
    assert run_module(job_python) == "trained\n"
    assert notes == ["installing source (kept for the next time)"]
    assert sorted(tree.rglob("*")) == before


def test_what_the_interpreter_has_is_not_installed_again(tree, cache):
    job_python, _ = prepared(cache, tree, requirements=("protobuf",))
    (entry,) = map(Path, job_python.python_path_entries)
    assert sorted(path.name for path in entry.iterdir()) == ["trainer", "trainer-0.1.dist-info"]


def test_a_warm_start_installs_nothing(tree, cache, no_uv):
    first, _ = prepared(cache, tree)
    no_uv()
    second, notes = prepared(cache, tree)
    assert second == first
    assert notes == []


def test_without_packages_nothing_is_made(cache, no_uv):
    no_uv()
    job_python, _ = prepared(cache)
    assert job_python == environments.JobPython(python=sys.executable)
    assert not cache.exists()


@pytest.mark.parametrize("archive_of", [sdist_of, wheel_of])
def test_an_archive_installs_as_the_tree_does(archive_of, tree, cache, tmp_path):
    job_python, _ = prepared(cache, archive_of(tree, tmp_path))
    assert run_module(job_python) == "trained\n"


def test_changed_content_is_another_environment_and_an_old_build_folder_changes_nothing(
    tree, cache
):
    first, _ = prepared(cache, tree)
    (tree / "build" / "lib" / "trainer").mkdir(parents=True)
    (tree / "build" / "lib" / "trainer" / "task.py").write_text("print('stale')\n")
    assert prepared(cache, tree)[0] == first
    (tree / "trainer" / "task.py").write_text("print('changed')\n")
    second, _ = prepared(cache, tree)
    assert second != first
    assert run_module(second) == "changed\n"


def test_another_interpreter_has_another_environment_and_says_what_it_lacks(tree, cache, tmp_path):
    wheel = wheel_of(tree, tmp_path)
    other = tmp_path / "venv"
    subprocess.run([uv.find_uv(), "venv", "-q", "--python", sys.executable, other], check=True)
    with pytest.raises(EngineFault, match=r"(?s)requirements cannot be met.*pyyaml"):
        prepared(cache, wheel, python=str(other / "bin" / "python"))
    assert not entries(cache)


def test_only_what_is_lacking_is_installed_beside_the_packages():
    wheel = Path("/w/trainer-0.1-py3-none-any.whl")
    text = (
        "Resolved 9 packages in 11ms\n"
        "Would install 4 packages\n"
        " - numpy==2.0\n"
        " + numpy==1.26.4\n"
        " + tabulate==0.10.0\n"
        " + other @ https://host/other-1.whl\n"
        f" + trainer @ {wheel.as_uri()}\n"
        f" + trainer==0.1 (from {wheel.as_uri()})\n"
    )
    lacking = list(plan._list_planned(text, [wheel]))
    assert lacking == ["numpy==1.26.4", "tabulate==0.10.0", "other @ https://host/other-1.whl"]


def test_a_package_that_does_not_build_shows_the_builder_s_last_words_and_keeps_nothing(
    tree, cache
):
    (tree / "setup.py").write_text("raise RuntimeError('no compiler today')\n")
    with pytest.raises(EngineFault, match=r"(?s)source does not build:.*no compiler today$"):
        prepared(cache, tree)
    assert not entries(cache)


def test_a_damaged_archive_is_called_that(cache, tmp_path):
    package = tmp_path / "trainer-0.1.tar.gz"
    package.write_bytes(b"not an archive")
    with pytest.raises(EngineFault, match=r"not a readable package archive: .*trainer-0\.1"):
        prepared(cache, package)
    assert not entries(cache)


def test_a_package_that_is_not_there_is_named(cache, tmp_path):
    with pytest.raises(EngineFault, match=r"nowhere\.whl: No such file"):
        prepared(cache, tmp_path / "nowhere.whl")


def test_a_package_that_cannot_be_read_is_named(tree, cache, monkeypatch):
    """Root may read everything, so the refusal comes from where the file would be opened."""

    def refuse(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EngineFault, match=r"cannot prepare the packages: .*: Permission denied"):
        prepared(cache, tree)


def test_a_full_disk_is_called_that_whether_we_or_uv_find_it(tree, cache, monkeypatch):
    full = f"no space left for packages on the disk of {cache}"
    answer = uv.UvResult(code=2, text="error: failed to write\n  cause: No space left on device")
    monkeypatch.setattr(uv, "ask", lambda *_: answer)
    with pytest.raises(EngineFault, match=full):
        prepared(cache, tree)

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")

    monkeypatch.setattr(content, "source_tree", refuse)
    with pytest.raises(EngineFault, match=full):
        prepared(cache, tree)
    assert not entries(cache)


@pytest.mark.parametrize("python", ["/no/python", "/bin/true"])
def test_an_interpreter_that_is_none_is_named(python, tree, cache):
    with pytest.raises(EngineFault, match=python):
        prepared(cache, tree, python=python)


def test_without_uv_the_fault_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineFault, match="pip install uv"):
        uv.find_uv()


def test_two_jobs_at_once_install_once(tree, cache):
    """Two processes: flock and the fork of a supervisor are per process."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from trainshed.engines.environments.cache import prepare\n"
        "from trainshed.model.launch_plan import Environment\n"
        f"e = Environment(python=sys.executable, packages=({str(tree)!r},))\n"
        f"print(prepare(e, cache_dir=Path({str(cache)!r}), note=lambda t: print('note', t)))\n"
    )
    jobs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [job.communicate()[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0]
    assert "".join(outputs).count("note installing source") == 1
    assert len({text.splitlines()[-1] for text in outputs}) == 1
    assert len(entries(cache)) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_a_package_builds_ends_the_builder_too(signum, tree, cache, mark):
    building = tree.parent / "building"
    (tree / "setup.py").write_text(touching(building) + FOREVER)
    code = (
        "import sys\nfrom pathlib import Path\nfrom dataclasses import replace\n"
        "from engines.support import Recorder, cluster, plan_of, run\n"
        "from trainshed.model.launch_plan import Environment\n"
        f"e = Environment(python=sys.executable, packages=({str(tree)!r},))\n"
        "plan = replace(plan_of(cluster('')), environment=e)\n"
        f"sys.exit(run(plan, Recorder(), cache_dir={str(cache)!r}).exit_code)\n"
    )
    env = {**os.environ, MARK: mark, "PYTHONPATH": str(Path(__file__).parent.parent)}
    launcher = subprocess.Popen([sys.executable, "-c", code], env=env)
    try:
        wait_until(building.exists, "the package is being built")
        launcher.send_signal(signum)
        assert launcher.wait(DEADLINE_S) == (-9 if signum == signal.SIGKILL else 128 + signum)
        assert_no_survivor(mark)
        assert signum == signal.SIGKILL or not entries(cache)
    finally:
        launcher.kill()
        launcher.wait()


def test_what_a_killed_install_has_left_is_replaced(tree, cache):
    first, _ = prepared(cache, tree)
    (home,) = map(Path, first.python_path_entries)
    home.rename(home.with_suffix(".partial"))
    second, _ = prepared(cache, tree)
    assert second == first
    assert run_module(second) == "trained\n"
    assert entries(cache) == [home]


def test_a_job_runs_its_package(tree, cache):
    lines = []

    class Sink:
        def line(self, _replica, text, _stream):
            lines.append(text)

        def note(self, text):
            lines.append(text)

    (replica,) = cluster("import trainer.task")
    plan = replace(plan_of([replica]), environment=environment(tree))
    outcome = run(plan, Sink(), cache_dir=str(cache))
    assert outcome.exit_code == 0
    assert lines == ["installing source (kept for the next time)", "trained"]


def test_what_a_job_writes_into_its_own_project_is_no_part_of_the_package(tree):
    """A --job-dir inside the project must not make every run install anew."""
    output, inner = tree / "runs", tree / "cache"
    environment = Environment(python=sys.executable, packages=(str(tree),), ignored=(str(output),))
    first = prepare(environment, cache_dir=inner, note=print)
    output.mkdir()
    (output / "result.json").write_text("{}")
    second = prepare(environment, cache_dir=inner, note=print)
    assert first == second
    assert len([path for path in inner.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("bits", [0o020, 0o002, 0o022])
def test_packages_are_not_imported_from_where_others_can_write(bits, tree, cache):
    job_python, _ = prepared(cache, tree)
    (home,) = map(Path, job_python.python_path_entries)
    for folder in (home, cache):
        folder.chmod(0o755 | bits)
        with pytest.raises(EngineFault, match=f"{folder.name} can be written by other users"):
            prepared(cache, tree)
        folder.chmod(0o700)
    assert prepared(cache, tree)[0] == job_python


def test_packages_are_not_imported_from_a_folder_of_another_user(tree, cache, monkeypatch):
    job_python, _ = prepared(cache, tree)
    (home,) = map(Path, job_python.python_path_entries)
    real = Path.stat

    def foreign(path, **more):
        facts = real(path, **more)
        if path != stranger:
            return facts
        return os.stat_result((*facts[:4], os.getuid() + 1, *facts[5:]))

    monkeypatch.setattr(Path, "stat", foreign)
    for stranger in (home, cache):
        with pytest.raises(EngineFault, match=f"{stranger.name} must belong to the server"):
            prepared(cache, tree)


def test_a_cache_is_made_for_its_user_alone(tree, cache):
    before = os.umask(0)
    try:
        job_python, _ = prepared(cache, tree)
    finally:
        os.umask(before)
    (home,) = map(Path, job_python.python_path_entries)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, home)] == [0o700, 0o700]


@pytest.mark.parametrize(
    "name", [".tox", ".nox", "node_modules", ".idea", ".ruff_cache", "my-own-environment"]
)
def test_what_tools_keep_in_a_tree_is_no_part_of_the_package(name, tree, tmp_path):
    before = content.address("", environment(tree))
    (tree / "trainer" / name).mkdir()
    (tree / "trainer" / name / "huge.py").write_text("")
    if name == "my-own-environment":
        (tree / "trainer" / name / "pyvenv.cfg").write_text("")
    assert content.address("", environment(tree)) == before
    assert not list(content.source_tree(tree, tmp_path / "copy").rglob("huge.py"))


def test_links_are_followed_inside_the_tree_and_not_out_of_it(tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("")
    (tree / "trainer" / "folder").symlink_to(outside)
    (tree / "trainer" / "stolen.txt").symlink_to(outside / "secret.txt")
    (tree / "trainer" / "again.py").symlink_to("task.py")
    copy = content.source_tree(tree, tmp_path / "copy")
    names = {path.name for path in copy.rglob("*") if path.is_file()}
    assert names == {"setup.py", "__init__.py", "task.py", "again.py"}
    assert (copy / "trainer" / "again.py").read_text() == "print('trained')\n"


def test_a_build_that_fails_leaves_nothing_at_all(tree, cache):
    (tree / "setup.py").write_text("raise RuntimeError\n")
    with pytest.raises(EngineFault, match="does not build"):
        prepared(cache, tree)
    assert not list(cache.iterdir())


def test_who_has_waited_for_a_build_that_failed_does_not_hold_a_lock_that_is_no_more(tmp_path):
    """Else the next job makes a new lock file, and two install at once."""
    path = tmp_path / "x.lock"
    notes = []
    build = environments._hold_lock(path, notes.append)
    build.__enter__()

    def waited():
        return notes == ["another job is installing the same packages; waiting for it"]

    def wait_and_look():
        with environments._hold_lock(path, notes.append), path.open() as fresh:
            with pytest.raises(BlockingIOError):
                fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "held"

    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(wait_and_look)
        try:
            wait_until(waited, "the other waits")
        finally:
            build.__exit__(EngineFault, EngineFault("no"), None)
        assert waiter.result(DEADLINE_S) == "held"


def test_requirements_that_the_interpreter_meets_install_nothing(cache):
    environment = Environment(python=sys.executable, requirements=("pytest",))
    prepared = prepare(environment, cache_dir=cache, note=print)
    (home,) = map(Path, prepared.python_path_entries)
    assert list(home.iterdir()) == []


def test_a_package_of_a_bucket_is_copied_before_it_is_looked_at(tree, tmp_path):
    buckets = tmp_path / "buckets"
    (buckets / "bkt").mkdir(parents=True)
    package = tree.rename(buckets / "bkt" / "source")
    (tmp_path / "secret").write_text("outside")
    (package / "trainer" / "secret.txt").symlink_to(tmp_path / "secret")
    bucket_environment = replace(environment(package), buckets=str(buckets))
    with content.own_copies(bucket_environment, tmp_path) as own:
        (copy,) = map(Path, own.packages)
        assert copy.name == "source"
        assert not copy.is_relative_to(buckets)
        assert not (copy / "trainer" / "secret.txt").exists()
        assert content.address("x", own) == content.address("x", environment(copy))
    assert not copy.exists()


@pytest.mark.parametrize("name", ["link", "folder/p.whl"])
def test_a_package_of_a_bucket_is_not_read_over_a_link(cache, tmp_path, name):
    bucket = tmp_path / "buckets" / "bkt"
    bucket.mkdir(parents=True)
    (tmp_path / "p.whl").write_text("outside")
    (bucket / "link").symlink_to(tmp_path / "p.whl")
    (bucket / "folder").symlink_to(tmp_path)
    bucket_environment = replace(environment(bucket / name), buckets=str(bucket.parent))
    with pytest.raises(EngineFault, match=rf"the package .*/{name} lies behind a link"):
        prepare(bucket_environment, cache_dir=cache, note=lambda _: None)


def test_what_a_builder_says_is_bounded_and_its_end_is_kept(tree, cache):
    (tree / "setup.py").write_text(
        "import sys\n"
        "for _ in range(300): sys.stderr.write('x' * 9999 + '\\n')\n"
        "sys.exit('no compiler for the frobnicator')\n"
    )
    with pytest.raises(EngineFault, match="no compiler for the frobnicator") as caught:
        prepared(cache, tree)
    assert len(str(caught.value)) < 100_000
