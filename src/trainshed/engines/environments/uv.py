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
#: The first match is the package itself; later matches are packages that its build needs.
_UNBUILT: Final = re.compile(r"Failed to (?:download and )?build `([\w.-]+)==([^`\s]+)`")


@dataclass(frozen=True)
class UvResult:
    """The output of uv, and its exit code."""

    code: int
    text: str

    def last_lines(self) -> str:
        """Return the last lines of the builder's output or, without a builder, of uv's output."""
        builder_text = self.text.partition("error: Failed to build")[0]
        own_text = self.text.partition("\nhint:")[0]
        return "\n".join((_drop_progress(builder_text) or _drop_progress(own_text))[-_LAST_LINES:])

    @property
    def unbuilt(self) -> tuple[str, str] | None:
        """The name and version of a source from an index that failed to build; None if none."""
        match = _UNBUILT.search(self.text) if self.code else None
        return None if match is None else (match[1], match[2])

    @property
    def disk_is_full(self) -> bool:
        """Whether uv failed because the disk is full."""
        return bool(self.code) and _DISK_FULL in self.text


def find_uv() -> str:
    """Return the path of uv: in the folder of the server's interpreter, or else on PATH.

    Raises EngineFault when there is none.
    """
    beside = Path(sys.executable).parent / "uv"
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if program is None:
        raise EngineFault(
            "cannot install packages: uv is not installed; install it with pip install uv"
        )
    return program


class UvContext(NamedTuple):
    """The folder in which uv works, and the builder that runs it.

    Each step has its own folder in ``work``.  The server does not write to a folder that a builder
    has used, since another program of the builder's user may still have files in it open.
    """

    work: Path
    builder: Builder = Builder()

    @property
    def cache(self) -> Path:
        """The folder of the environments, next to which uv works."""
        return self.work.parent

    @property
    def wheels(self) -> Path:
        """The wheels to install, which no builder can change."""
        return self.work / "wheels"

    @property
    def target(self) -> Path:
        """The folder of the installed packages."""
        return self.work / "install" / "target"


def ask(arguments: Sequence[str], context: UvContext, step: Path) -> UvResult:
    """Run uv, which may write to the folder ``step``, and wait for it."""
    command = (find_uv(), *arguments)
    build = context.builder.build(command, step, context.cache, reads=(str(context.wheels),))
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
        output = _read_until_end(process, context.builder)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # no process of the step may live on
        code = process.wait()
        context.builder.end()
    return UvResult(code=code, text=output.decode("utf-8", errors="replace"))


#: The number of last bytes of a builder's output to keep; uv's plan is among them.
_OUTPUT_BYTES_MAX: Final = 1 << 20
#: Seconds between two kills of orphaned processes for which a command may wait.
_CHECK_S: Final = 1.0


def _read_until_end(process: subprocess.Popen[bytes], builder: Builder) -> bytes:
    """Return the end of a process's output; do not wait for leftover processes with the pipe."""
    output, pipe = b"", process.stdout
    if pipe is None:
        raise AssertionError("the process was started without a pipe")
    os.set_blocking(pipe.fileno(), False)
    ended = os.pidfd_open(process.pid)
    watched, checked_s = {ended, pipe.fileno()}, time.monotonic()
    try:
        while True:
            ready, _, _ = select.select(watched, (), (), _CHECK_S)
            piece = _read_available(pipe.fileno())
            output = (output + (piece or b""))[-_OUTPUT_BYTES_MAX:]
            if ended in ready:
                return output
            if piece == b"":
                watched.discard(pipe.fileno())
            if time.monotonic() - checked_s >= _CHECK_S:
                builder.end_left(process.pid)
                checked_s = time.monotonic()
    finally:
        os.close(ended)
        pipe.close()


def _read_available(pipe: int) -> bytes | None:
    """Read the available bytes of a pipe; None if there are none yet, empty at its end."""
    try:
        return os.read(pipe, _OUTPUT_BYTES_MAX)
    except BlockingIOError:
        return None


def disk_full(cache_dir: Path) -> str:
    """Return the message for a disk that has no space for an environment."""
    return f"no space left for packages on the disk of {cache_dir}; nothing was kept"


def check(answer: UvResult, failure: str, context: UvContext) -> None:
    """Raise EngineFault for a failed run of uv, with its last lines."""
    if answer.disk_is_full:
        raise EngineFault(disk_full(context.cache))
    if answer.code:
        raise EngineFault(f"{failure}:\n{answer.last_lines()}")


_PROGRESS: Final = ("hint:", "Building ", "Using ", "Resolved ")


def _drop_progress(text: str) -> list[str]:
    """Return the lines without hints and progress."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.lstrip().startswith(_PROGRESS)]
