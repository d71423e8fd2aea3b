"""A docker daemon of the tests' own: its socket, images and containers are in a folder of theirs.

It needs root and the programs of Debian's package docker.io.  It touches nothing of the machine's
network and of other daemons, and ends with the tests.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

DEADLINE_S = 120.0
#: An image with an entry point and a default, in the machine's own few programs.
IMAGE = "trainshed-test/shell:1"
PROGRAMS = ("sh", "cat", "id", "env", "sleep", "touch", "stat", "df", "ls", "mkdir", "echo")


def why_not() -> str:
    """What keeps a daemon from being started here; empty where nothing does."""
    if os.geteuid() != 0:
        return "a docker daemon of one's own needs root"
    absent = [name for name in ("docker", "dockerd", "containerd", "runc") if not program(name)]
    return f"not installed (apt install docker.io): {', '.join(absent)}" if absent else ""


def program(name):
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


@contextmanager
def running_daemon(folder: Path):
    """Start it; yields the environment of its clients, or the last words of one that ended."""
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    env["DOCKER_HOST"] = f"unix://{folder}/socket"
    env["DOCKER_CONFIG"] = str(folder / "client")
    env["TMPDIR"] = str(folder)  # containerd writes its stacks there
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [
                *(program("dockerd"), "-H", env["DOCKER_HOST"], "--pidfile", folder / "pid"),
                *("--data-root", folder / "data", "--exec-root", folder / "exec"),
                *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false"),
                *("--storage-driver", "vfs"),
            ],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield env if _answers(daemon, env) else (folder / "log").read_text()[-500:]
    finally:
        daemon.terminate()
        try:
            daemon.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


@contextmanager
def docker_with_image():
    """The same with the image, in a folder that goes with it; skips where it does not start."""
    folder = Path(tempfile.mkdtemp(prefix="trainshed-docker-"))  # a socket's path must be short
    try:
        with running_daemon(folder) as env:
            if isinstance(env, str):
                pytest.skip(f"dockerd does not start here: {env}")
            make_image(env)
            yield env
    finally:
        _unmount_below(folder)
        shutil.rmtree(folder)


def _unmount_below(folder):
    """The daemon keeps a file on the machine's network namespace, also when it has ended."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((p for p in places if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run([program("umount"), place], check=True)


def container_names(env):
    """All containers, whether they run or not."""
    return docker(env, "ps", "-a", "--format", "{{.Names}}").stdout.decode().split()


def _answers(daemon, env) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while daemon.poll() is None and time.monotonic() < deadline:
        if docker(env, "version", check=False).returncode == 0:
            return True
        time.sleep(0.05)
    return False


def docker(env, *words, check=True, **more):
    return subprocess.run(
        [program("docker"), *words], env=env, check=check, capture_output=True, **more
    )


def make_image(env) -> None:
    """The image, made of the machine's own shell and what it needs."""
    data = BytesIO()
    files = {f"/bin/{name}": program(name) for name in PROGRAMS}
    files |= {library: library for path in list(files.values()) for library in _libraries(path)}
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name in sorted({str(folder) for path in files for folder in Path(path).parents}):
            folder = tarfile.TarInfo(name.lstrip("/"))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for inside, path in files.items():
            archive.add(os.path.realpath(path), inside.lstrip("/"))
    changes = ('ENTRYPOINT ["/bin/sh", "-c"]', 'CMD ["echo from CMD"]', "ENV FROM_IMAGE=yes")
    flags = [word for change in changes for word in ("--change", change)]
    docker(env, "import", *flags, "-", IMAGE, input=data.getvalue())


def _libraries(path):
    told = subprocess.run(
        [program("ldd"), path], check=False, capture_output=True, text=True
    ).stdout
    return [word for word in told.split() if word.startswith("/")]
