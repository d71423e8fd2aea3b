"""Runs uv, the installer underneath, in a process group of its own: what it starts ends with it.

Its words on failure are turned into ours where we can say more, and passed on where the builder
knows best.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainshed.engines.local.processes.linux import die_with_parent
from trainshed.model.faults import EngineFault

_LAST_LINES = 8
_DISK_FULL = "No space left on device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What uv said and how it ended."""

    code: int
    text: str

    def last_lines(self) -> str:
        """The end of what a builder said; where there was none, of what uv said itself."""
        built = self.text.partition("error: Failed to build")[0]
        return "\n".join((_telling(built) or _telling(self.text))[-_LAST_LINES:])

    @property
    def disk_is_full(self) -> bool:
        """Whether it failed for want of disk space."""
        return bool(self.code) and _DISK_FULL in self.text


def find_uv() -> str:
    """The uv beside our interpreter, or the one on PATH.

    Raises EngineFault when there is none.
    """
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise EngineFault("uv is needed to install packages and was not found; pip install uv")
    return found


def ask(arguments: Sequence[str]) -> Answer:
    """Run uv and wait for it."""
    command = (find_uv(), *arguments)
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own installer
                command,
                env={**os.environ, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - one thread
            )
        except OSError as error:
            raise EngineFault(f"cannot run uv: {error.filename}: {error.strerror}") from error
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # nothing of it may stay behind
            code = process.wait()
        said.seek(0)
        return Answer(code=code, text=said.read().decode("utf-8", errors="replace"))


def disk_full(cache_dir: Path) -> str:
    """The sentence for a disk that has no room for an environment."""
    return f"no space left for packages on the disk of {cache_dir}; nothing was kept"


def _telling(text: str) -> list[str]:
    """The lines that say something of this failure."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.startswith(("hint:", "Building ", "Using "))]
