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
from pathlib import Path

import pytest

DEADLINE_S = 120.0
#: An image with an entry point and a default, in the machine's own few programs.
IMAGE = "trainshed-test/shell:1"
PROGRAMS = ("sh", "cat", "id", "env", "sleep", "touch", "stat", "df", "ls", "mkdir", "echo")


def why_not() -> str:
    """What keeps a daemon from being started here; empty where nothing does."""
    if os.geteuid() != 0:
        return "a docker daemon of one's own needs root: run the tests as root"
    absent = [name for name in ("docker", "dockerd", "containerd", "runc") if not program(name)]
    return f"not installed (apt install docker.io): {', '.join(absent)}" if absent else ""


def program(name):
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


#: A daemon that leaves the machine's network alone; one in a network of its own has a bridge there.
NO_BRIDGE = ("--bridge=none", "--storage-driver", "vfs")


@contextmanager
def running_daemon(folder: Path, flags=NO_BRIDGE):
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
                *("--iptables=false", "--ip6tables=false", "--ip-masq=false"),
                *flags,
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
def docker_with_image(flags=NO_BRIDGE):
    """The same with the image, in a folder that goes with it; skips where it does not start."""
    folder = Path(tempfile.mkdtemp(prefix="trainshed-docker-"))  # a socket's path must be short
    try:
        with running_daemon(folder, flags) as env:
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
    files = {f"/bin/{name}": program(name) for name in PROGRAMS}
    files |= {path: path for path in libraries(*files.values())}
    changes = ('ENTRYPOINT ["/bin/sh", "-c"]', 'CMD ["echo from CMD"]', "ENV FROM_IMAGE=yes")
    with importing(env, IMAGE, changes) as archive:
        add_folders(archive, {str(folder) for path in files for folder in Path(path).parents})
        for inside, path in files.items():
            archive.add(os.path.realpath(path), inside.lstrip("/"))


@contextmanager
def importing(env, image, changes=()):
    """An archive whose files become an image's."""
    flags = [word for change in changes for word in ("--change", change)]
    command = [program("docker"), "import", *flags, "-", image]
    taking = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with taking, tarfile.open(fileobj=taking.stdin, mode="w|") as archive:
        yield archive
    assert taking.returncode == 0, image


def add_folders(archive, names):
    """Folders that everybody may read, in the order in which they are made."""
    for name in sorted({name.lstrip("/") for name in names} - {""}):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        archive.addfile(folder)


def libraries(*paths):
    """Where the machine has the libraries that programs, or libraries, are linked with."""
    output = subprocess.run(
        [program("ldd"), *paths], check=False, capture_output=True, text=True
    ).stdout
    words = (word for line in output.splitlines() if line[:1] == "\t" for word in line.split())
    return sorted({word for word in words if word.startswith("/")})
