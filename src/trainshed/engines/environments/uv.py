"""Runs uv in a folder, isolated as the job's builder is, until its last process ends."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.environments.builder import Builder
from trainshed.model.faults import EngineFault

_LAST_LINES = 8
_DISK_FULL = "No space left on device"
#: The outermost: below it may stand what it needs to be built.
_UNBUILT: Final = re.compile(r"Failed to (?:download and )?build `([\w.-]+)==([^`\s]+)`")


@dataclass(frozen=True)
class UvResult:
    """What uv said and how it ended."""

    code: int
    text: str

    def last_lines(self) -> str:
        """The end of what a builder said; where there was none, of what uv said itself."""
        built = self.text.partition("error: Failed to build")[0]
        own_text = self.text.partition("\nhint:")[0]
        return "\n".join((_relevant(built) or _relevant(own_text))[-_LAST_LINES:])

    @property
    def unbuilt(self) -> tuple[str, str] | None:
        """The name and version of an index's source that did not build, where that was it."""
        match = _UNBUILT.search(self.text) if self.code else None
        return None if match is None else (match[1], match[2])

    @property
    def disk_is_full(self) -> bool:
        """Whether it failed for want of disk space."""
        return bool(self.code) and _DISK_FULL in self.text


def find_uv() -> str:
    """The uv beside our interpreter, or the one on PATH.

    Raises EngineFault when there is none.
    """
    beside = Path(sys.executable).parent / "uv"
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if program is None:
        raise EngineFault("uv is needed to install packages and was not found; pip install uv")
    return program


class UvContext(NamedTuple):
    """Where uv works, and for whom.

    Each step has a folder of its own there.  What a builder has had is its for good: another
    program of its user may still hold it open.  So nothing of ours is written there afterwards.
    """

    work: Path
    builder: Builder = Builder()

    @property
    def cache(self) -> Path:
        """The folder of the environments that it is beside of."""
        return self.work.parent

    @property
    def wheels(self) -> Path:
        """What is to be installed, which no builder can change."""
        return self.work / "wheels"

    @property
    def target(self) -> Path:
        """What has been installed."""
        return self.work / "install" / "target"


def ask(arguments: Sequence[str], place: UvContext, step: Path) -> UvResult:
    """Run uv, which may write to the folder ``step``, and wait for it."""
    command = (find_uv(), *arguments)
    build = place.builder.build(command, step, place.cache, reads=(str(place.wheels),))
    try:
        process = subprocess.Popen(  # noqa: S603 - our own installer
            build.argv,
            env=build.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=build.enter,  # noqa: PLW1509 - one thread
            pass_fds=build.descriptors,
        )
    except OSError as error:
        raise EngineFault(f"cannot run uv: {error.filename}: {error.strerror}") from error
    finally:
        for descriptor in build.descriptors:
            os.close(descriptor)
    try:
        output = _read_until_end(process, place.builder)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # nothing of it may stay behind
        code = process.wait()
        place.builder.end()
    return UvResult(code=code, text=output.decode("utf-8", errors="replace"))


#: More of what a builder says is not kept: its last lines and uv's plan are all that is read.
_SAID_BYTES_MAX: Final = 1 << 20
#: How often a command is looked at that may wait for what it has left, in seconds.
_EVERY_S: Final = 1.0


def _read_until_end(process: subprocess.Popen[bytes], builder: Builder) -> bytes:
    """The last that a process says until it ends; what it has left may hold the pipe for longer."""
    output, pipe = b"", process.stdout
    if pipe is None:
        raise AssertionError("it was started with a pipe")
    os.set_blocking(pipe.fileno(), False)
    ended = os.pidfd_open(process.pid)
    watched, looked_s = {ended, pipe.fileno()}, time.monotonic()
    try:
        while True:
            ready, _, _ = select.select(watched, (), (), _EVERY_S)
            piece = _piece_of(pipe.fileno())
            output = (output + (piece or b""))[-_SAID_BYTES_MAX:]
            if ended in ready:
                return output
            if piece == b"":
                watched.discard(pipe.fileno())
            if time.monotonic() - looked_s >= _EVERY_S:
                builder.end_left(process.pid)
                looked_s = time.monotonic()
    finally:
        os.close(ended)
        pipe.close()


def _piece_of(pipe: int) -> bytes | None:
    """All that is in a pipe; None where that is nothing, empty where no more can come."""
    try:
        return os.read(pipe, _SAID_BYTES_MAX)
    except BlockingIOError:
        return None


def disk_full(cache_dir: Path) -> str:
    """The sentence for a disk that has no room for an environment."""
    return f"no space left for packages on the disk of {cache_dir}; nothing was kept"


def check(answer: UvResult, failure: str, place: UvContext) -> None:
    """Raise EngineFault for what has failed, with its last lines."""
    if answer.disk_is_full:
        raise EngineFault(disk_full(place.cache))
    if answer.code:
        raise EngineFault(f"{failure}:\n{answer.last_lines()}")


_ASIDES: Final = ("hint:", "Building ", "Using ", "Resolved ")


def _relevant(text: str) -> list[str]:
    """The lines that say something of this failure."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.lstrip().startswith(_ASIDES)]
