"""A bash that lives as long as a page: what one block exports or evaluates holds in the next."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

#: For a command; one that is broken costs it, no other does.
COMMAND_S_MAX: Final = 500
END_S_MAX: Final = 30
POLL_S: Final = 0.02
#: A server in the foreground keeps the shell: a page's reader types on in another terminal.
SERVE: Final = re.compile(
    r"^(trainshed serve)\b(?! --run| --help)([^#\n&]*?)[ &]*(#.*)?$", re.MULTILINE
)
BEGIN: Final = """\
set -euo pipefail
serve_in_background() {
    rm -f "$TRAINSHED_DATA_DIR/server.json"
    "$@" > "$SERVE_LOG" 2>&1 &
    SERVER=$!
    until [ -s "$TRAINSHED_DATA_DIR/server.json" ]; do
        kill -0 $SERVER 2> /dev/null || { cat "$SERVE_LOG"; return 1; }
        sleep 0.05
    done
}
trap 'echo "$?" >&CONTROL' EXIT
"""


@dataclass(frozen=True)
class Result:
    """How a command ended; its output has both streams."""

    status: int
    output: str


class Shell:
    """Runs the commands of a page, one after the other, with errors as ends."""

    def __init__(self, folder: Path, env: dict[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._count = 0
        self._status_fd, control = os.pipe()
        os.set_blocking(self._status_fd, False)
        self._control = control
        self._process = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**env, "SERVE_LOG": str(scratch / "serve.log")},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control,),
            start_new_session=True,
            text=True,
        )
        self._send(BEGIN.replace("CONTROL", str(control)))

    def run(self, text: str, *, may_fail: bool = False, timeout_s: float = COMMAND_S_MAX) -> Result:
        """Run a command in this shell; without `may_fail` a failure is the shell's end."""
        self._count += 1
        script = self._scratch / f"{self._count}.sh"
        output = self._scratch / f"{self._count}.out"
        script.write_text(SERVE.sub(r"serve_in_background \1\2", text) + "\n")
        output.touch()
        before, after = ("set +e", "set -e") if may_fail else ("", "")
        self._send(f"{before}\n. {script} > {output} 2>&1 < /dev/null\n"
                   f"echo $? >&{self._control}; {after}\n")  # fmt: skip
        status = self._wait_for_status(timeout_s)
        return Result(status, output.read_text(errors="replace"))

    def close(self) -> None:
        """End the shell and what it has started in the background, the newest process first."""
        for process in reversed(self._started()):
            self._end(process)
        self._process.stdin.close()
        self._process.wait()
        os.close(self._status_fd)
        os.close(self._control)

    def _send(self, text):
        with suppress(BrokenPipeError):  # its status says how it ended
            self._process.stdin.write(text)
            self._process.stdin.flush()

    def _wait_for_status(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        received = b""
        while not received.endswith(b"\n"):
            with suppress(BlockingIOError):
                received += os.read(self._status_fd, 100)
            if received or self._process.poll() is None:
                time.sleep(POLL_S)
            elif self._process.poll() is not None:
                return self._process.returncode
            if time.monotonic() > deadline:
                os.killpg(self._process.pid, signal.SIGKILL)
                return 124
        return int(received.split()[0])

    def _started(self):
        """The processes of this shell's session: jobs of a server have sessions of their own."""
        processes = []
        for process in psutil.process_iter():
            with suppress(ProcessLookupError):
                if os.getsid(process.pid) == self._process.pid:
                    processes.append(process)
        return sorted(processes, key=lambda process: process.create_time())

    def _end(self, process):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(END_S_MAX if process.pid != self._process.pid else 0.2)
            except psutil.TimeoutExpired:
                process.kill()
