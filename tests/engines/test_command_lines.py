"""The folder of an attempt stands in no command line, where other users read it in ``/proc``."""

import os
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, folder, marked, order, texts
from engines.isolating import isolation_of
from engines.support import FOREVER, plan_of, python_replica, wait_until
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.local.attempts.fork import ForkServer
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.model.launch_plan import Owner
from trainshed.model.roles import Role

MODES = ("none", "users", "sandbox", "landlock")


def walls(mode, root):
    return Isolation(mode) if mode == "none" else isolation_of(mode, root)


def command_lines(root):
    """The commands on this machine that name the folder of attempts."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if os.fsencode(root) in words:
                yield words.replace(b"\0", b" ").decode(errors="replace")


@pytest.mark.parametrize("mode", MODES)
def test_no_command_line_of_a_job_that_runs_names_its_folder(mode, root, mark):
    """Its program is the interpreter of its own environment all the same."""
    engine = engine_at(root, isolation=walls(mode, root), pass_env=())
    code = "import sys; print(sys.executable, sys.prefix, 'ready', flush=True)\n"
    plan = marked(mark, code + FOREVER)
    (replica,) = plan.replicas
    path = f"{Path(sys.executable).parent}:{os.defpath}"  # as the service does
    replica = replace(replica, env={**replica.env, "PATH": path})
    owner = Owner(project="alpha", number=3)
    engine.launch(KEY, replace(plan, replicas=(replica,), owner=owner), ())
    wait_until(lambda: any("ready" in text for text in texts(root)), "it runs")
    overlay = folder(root) / "machines/master-replica-0/python"
    assert texts(root) == [f"{overlay}/bin/python {overlay} ready"]
    assert list(command_lines(root)) == []


@pytest.mark.parametrize("has_fork_server", [True, False])
def test_no_command_line_of_a_job_that_is_prepared_names_its_folder(
    has_fork_server, root, mark, tmp_path, monkeypatch
):
    """Its preparer waits for a device; its supervisor is also started without a fork server."""
    if not has_fork_server:
        monkeypatch.setattr(ForkServer, "fork", lambda *_: None)
    locks = tmp_path / "locks"
    device_locks.prepare(locks)
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(locks))
    engine = engine_at(root, find_gpus=None, fake_gpus=1)
    stranger = DeviceHolder(pid=12, what="a local run")
    with closing(device_locks.try_lock(locks, "GPU-fake-0000", stranger)):
        plan = plan_of([python_replica(Role.PRIMARY, 0, FOREVER, gpu_count=1)], mark)
        engine.launch(KEY, plan, ())
        wait_until(lambda: texts(root, "service"), "its preparer waits")
        assert list(command_lines(root)) == []
        engine.stop(KEY, order(0.0))
        ended(engine)
