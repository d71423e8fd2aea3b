"""Podman for tests, as root and rootless: its images and containers lie in a folder of their own.

A rootless podman needs a user with a name, numbers to spare and the node for tunnels.
``isolation/as_user.py`` gives it these in a mount namespace: the machine's files stay as they are.
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engines.docker_daemon import program

RUN_S_MAX = 300
AS_USER = Path(__file__).parents[1] / "isolation/as_user.py"
ROOT = 0
#: Podman asks for more open files and processes than some machines let it have.
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:20000", "nproc=4096:10000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
rootless_storage_path = "{folder}/graph"
"""


def why_not(uid):
    """What keeps podman from being used here; empty where nothing does."""
    if os.geteuid() != ROOT:
        return "a podman of one's own needs root: run the tests as root"
    needed = ("podman", "runc", *(("newuidmap", "slirp4netns") if uid else ()))
    absent = [name for name in needed if not program(name)]
    packages = "podman uidmap slirp4netns"
    return f"not installed (apt install {packages}): {', '.join(absent)}" if absent else ""


def as_user(uid, *argv):
    """A command as a user that a rootless podman can be."""
    return argv if uid == ROOT else (sys.executable, str(AS_USER), str(uid), *argv)


@contextmanager
def podman_with_image(folder, uid, image, fill):
    """Variables for a podman that has an image, whose files ``fill`` puts into an archive.

    Skips where it runs no container.
    """
    ours = _variables(folder, uid)
    try:
        with tarfile.open(folder / "image.tar", "w") as archive:
            fill(archive)
        (folder / "image.tar").chmod(0o644)
        podman(ours, uid, "import", folder / "image.tar", image)
        (folder / "image.tar").unlink()
        tried = podman(ours, uid, "run", "--rm", image, "python", "-c", "print('up')", check=False)
        if tried.stdout != b"up\n":
            pytest.skip(f"podman runs no container here: {tried.stderr.decode()[-500:]}")
        yield ours
    finally:
        podman(ours, uid, "rm", "--all", "--force", check=False)
        _end_pause(folder)
        _unmount_below(folder)
        shutil.rmtree(folder)


@contextmanager
def running(ours, uid, image):
    """Have a container run: root's podman has its bridge on the machine as long as one does.

    Over that bridge jobs reach the gateway.
    """
    name = "keeps-the-bridge"
    words = ("run", "--detach", "--rm", "--name", name, image)
    podman(ours, uid, *words, "python", "-c", "import time; time.sleep(7200)")
    try:
        yield
    finally:
        podman(ours, uid, "rm", "--force", "--time", "0", name)


def podman(ours, uid, *words, check=True):
    """Run it in its folder's environment."""
    done = subprocess.run(
        as_user(uid, program("podman"), *map(str, words)),
        env={**os.environ, **ours},
        check=False,
        capture_output=True,
        timeout=RUN_S_MAX,
        cwd="/",
    )
    assert not check or done.returncode == 0, done.stderr.decode()
    return done


def _variables(folder, uid):
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "containers.conf").write_text(SETTINGS)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    for path in (folder, *folder.iterdir()):
        os.chown(path, uid, uid)
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "XDG_RUNTIME_DIR": str(folder / "runtime"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }


def _end_pause(folder):
    """A rootless podman leaves a process that holds its user namespace."""
    with suppress(OSError, ValueError):
        os.kill(int((folder / "runtime/libpod/tmp/pause.pid").read_text()), signal.SIGKILL)


def _unmount_below(folder):
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((p for p in places if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run([program("umount"), place], check=True)
