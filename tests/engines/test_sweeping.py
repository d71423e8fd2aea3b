"""What killed supervisors leave is ended before an attempt is told to be gone: containers too."""

import os
import signal

import pytest

from engines.attempts import KEY, engine_at, observe, supervisor, until
from engines.support import marked_processes, plan_of, python_replica, wait_until
from trainshed.engines.container_runtime import Runtime, RuntimeChoice
from trainshed.engines.local.devices import locks as device_locks
from trainshed.model.attempt import Phase
from trainshed.model.launch_plan import ContainerPlan
from trainshed.model.roles import Role

#: A runtime whose one container lives until it is removed, whatever happens to its client.
RUNTIME = """\
#!/bin/sh
here=$(dirname "$0")
case $1 in
run) echo 0123abcd > "$here/living"; exec sleep 600 ;;
ps) [ ! -e "$here/hangs" ] && cat "$here/living" 2> /dev/null || [ ! -e "$here/hangs" ] ;;
rm) rm -f "$here/living" ;;
esac
"""


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(RUNTIME)
    program.chmod(0o755)
    locks = tmp_path / "locks"
    device_locks.prepare(locks)
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(locks))
    return Runtime("docker", str(program), "1", f"{os.getuid()}:{os.getgid()}")


def killed_with_a_container(root, mark, runtime, gpus, monkeypatch):
    """An attempt whose container lives on without its supervisor; the engine, and where it is."""
    monkeypatch.setenv("TRAINSHED_TEST_MARK", mark)
    engine = engine_at(root, find_gpus=None, fake_gpus=1, containers=RuntimeChoice(runtime))
    image = ContainerPlan(image="image")
    replica = python_replica(Role.PRIMARY, 0, "", container=image, gpu_count=gpus)
    engine.launch(KEY, plan_of([replica]), ())
    living = root.parent / "bin" / "living"
    wait_until(lambda: living.exists() and living.read_text(), "the container runs")
    until(engine, Phase.READY)
    os.kill(supervisor(root), signal.SIGKILL)
    wait_until(lambda: not marked_processes(mark) or observe(engine), "it is dead")
    return engine, living


@pytest.mark.parametrize("gpus", [0, 1])
def test_no_container_is_left_of_an_attempt_that_is_lost(root, mark, runtime, gpus, monkeypatch):
    """With devices the container is a preparer's; nothing but the plan tells of it."""
    engine, living = killed_with_a_container(root, mark, runtime, gpus, monkeypatch)
    until(engine, Phase.LOST)
    assert not living.exists()


def test_a_server_that_has_no_runtime_any_more_removes_them_all_the_same(
    root, mark, runtime, monkeypatch
):
    _, living = killed_with_a_container(root, mark, runtime, 1, monkeypatch)
    until(engine_at(root), Phase.LOST)
    assert not living.exists()


def test_nothing_is_told_while_the_runtime_does_not_answer(root, mark, runtime, monkeypatch):
    hangs = root.parent / "bin" / "hangs"
    hangs.touch()
    engine, living = killed_with_a_container(root, mark, runtime, 1, monkeypatch)
    until(engine, Phase.UNKNOWN)
    assert living.exists()
    hangs.unlink()
    until(engine, Phase.LOST)
    assert not living.exists()
