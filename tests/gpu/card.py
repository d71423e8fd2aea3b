"""The GPUs of the tests: the machine's own, or those of a driver of ours that stands for one.

Tests do not know which: they start programs with ``Card.command`` and look with ``Card.look``.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server_process import TRAINSHED

HERE = Path(__file__).parent
DRIVER = HERE / "driver"
#: ``make test-gpu`` says so; everywhere else there is our own driver.
IS_REAL = os.environ.get("TRAINSHED_GPU") == "real"
MIB = 1 << 20
H100 = "NVIDIA H100 80GB HBM3"


class Card:
    """GPUs, and how programs are started that see them."""

    def __init__(self, prefix=(), state=None, smi="nvidia-smi"):
        self.prefix = prefix
        #: The folder that says what becomes of GPUs that do not exist; None for real ones.
        self.state = state
        self.smi = smi
        self._witness = None
        self._strangers = None

    def command(self, *argv):
        """What starts a program that sees the GPUs."""
        return [*map(str, self.prefix), *map(str, argv)]

    @property
    def server_program(self):
        """What ``serving`` starts; None for its own way."""
        return self.command(TRAINSHED) if self.prefix else None

    def output(self, *argv):
        """What a program prints that sees the GPUs."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def look(self):
        """What NVML says of each GPU."""
        if self._witness is None:
            argv = self.command(sys.executable, HERE / "witness.py")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._witness = subprocess.Popen(argv, **pipes, text=True)
        self._witness.stdin.write("look\n")
        self._witness.stdin.flush()
        return json.loads(self._witness.stdout.readline())

    @property
    def uuids(self):
        return [gpu["uuid"] for gpu in self.look()]

    def used_mib(self):
        """By UUID, the memory in use."""
        return {gpu["uuid"]: gpu["used_bytes"] // MIB for gpu in self.look()}

    def pids(self):
        """Every process on one of them that was not there when this was first asked."""
        pids = {pid for gpu in self.look() for pid in gpu["pids"]}
        if self._strangers is None:
            self._strangers = pids
        return pids - self._strangers

    def set(self, gpu, name, text):
        """Let something become of a GPU that does not exist."""
        (self.state / str(gpu) / name).write_text(str(text))

    def close(self):
        if self._witness is not None:
            with self._witness as process:
                process.stdin.close()


@contextlib.contextmanager
def real():
    card = Card()
    try:
        yield card
    finally:
        card.close()


@contextlib.contextmanager
def fake(folder, names=(H100, H100)):
    """A machine with GPUs of these names that are our own; skips where it cannot be had."""
    if os.geteuid():
        pytest.skip("only root can plug in GPUs that do not exist: run the tests as root")
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler (apt install gcc libc6-dev) for the driver")
    # programs of other users go in and out here
    state = folder / "state"
    state.mkdir(parents=True)
    for gpu, name in enumerate(names):
        _describe(state / str(gpu), gpu, name)
    for place in (folder, state, *state.iterdir()):
        place.chmod(0o755)
    words = (sys.executable, DRIVER / "plug.py")
    with subprocess.Popen(
        (*words, state, _libraries(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as plug:
        try:
            if plug.stdout.readline() != "plugged in\n":
                # for `make test` that is a fault; a machine with a GPU may be a container
                (pytest.skip if IS_REAL else pytest.fail)("GPUs cannot be plugged in here")
            card = Card((*words, "join", str(plug.pid)), state, "/usr/local/src/nvidia-smi")
            try:
                yield card
            finally:
                card.close()
        finally:
            plug.stdin.close()


def _describe(folder, gpu, name):
    folder.mkdir()
    (folder / "uuid").write_text(f"GPU-0000000{gpu}-1111-2222-3333-444444444444")
    (folder / "name").write_text(name)
    (folder / "memory").write_text("24576")


def _libraries(folder):
    libraries = folder / "libraries"
    libraries.mkdir()
    words = ("cc", "-O1", "-shared", "-fPIC", '-DSTATE="/usr/local/src/state"', DRIVER / "driver.c")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run((*words, f"-Wl,-soname,{name}", "-o", libraries / name), check=True)
    shutil.copy(DRIVER / "nvidia-smi", libraries)
    return libraries
