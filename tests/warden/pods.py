"""Attempts whose launcher and wardens a cluster starts, each by itself; all are on this machine."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.engines.processes.secret import new_secret
from trainshed.engines.warden import compose
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.model.launch_plan import LaunchPlan
from warden.attempts import DEADLINE_S, KEY, Attempt, Launchers

UID = "a-pod-uid"
RANK = "JOB_COMPLETION_INDEX"


@dataclass
class PodAttempt(Attempt):
    """An attempt with its wardens, by index."""

    wardens: dict[int, subprocess.Popen] = field(default_factory=dict)
    outputs: Path = Path()

    def status_after(self, ended) -> int:
        """A launcher in a container ends well: its pods are counted by their wardens."""
        del ended
        return 0

    def output(self, index: int) -> str:
        """What a reader of the container's output gets."""
        return (self.outputs / f"{index}.out").read_text(errors="replace")

    def statuses(self) -> list[int]:
        """The exit statuses of all wardens, after their ends."""
        return [self.wardens[index].wait(DEADLINE_S) for index in sorted(self.wardens)]


class Pods:
    """Starts the processes of attempts, and ends what is left of them."""

    def __init__(self, launchers: Launchers, root: Path) -> None:
        self._launchers = launchers
        self.root = root
        self.archive = launchers.archive
        self.secret = new_secret()
        self.port = free_port()
        self._processes: list[subprocess.Popen] = []

    def begin(
        self,
        plan: LaunchPlan,
        *,
        indexes: Sequence[int] | None = None,
        env: Mapping[str, str] = {},
        before: Sequence[str] = (),
        stdout: int | None = None,
        **more,
    ) -> PodAttempt:
        """Start a launcher, and the wardens with these indexes; all of them by default.

        ``before`` are words before the command of a warden.
        """
        folder = self._launchers.folder()
        more = {"port": self.port, "has_shared_folder": False, "drops": ("KUBERNETES_",), **more}
        spec = compose.spec_of(plan, KEY, folder, **more)
        compose.write(folder, spec._replace(settle_s=DEADLINE_S))
        outputs = self.root / "outputs"
        outputs.mkdir(parents=True)
        attempt = PodAttempt(folder, self.start_launcher(), outputs=outputs)
        for index in range(len(plan.replicas)) if indexes is None else indexes:
            attempt.wardens[index] = self.start_warden(
                index, attempt, env=env, before=before, stdout=stdout
            )
        return attempt

    def start_launcher(self, uid: str = UID) -> subprocess.Popen:
        folder = self._launchers.folder()
        with (self.root / "launcher.out").open("ab") as output:
            return self._start(
                ("attempt", folder.path, uid),
                env={**os.environ, SECRET: self.secret},
                stdout=output,
                stderr=output,
            )

    def start_warden(
        self, index, attempt, *, env: Mapping[str, str] = {}, before=(), stdout=None
    ) -> subprocess.Popen:
        work = self.root / f"container-{index}"
        work.mkdir()
        with (attempt.outputs / f"{index}.out").open("ab") as output:
            return self._start(
                ("task", "--first", "0", "--rank-variable", RANK),
                before=before,
                env={**os.environ, **self.warden_env(), RANK: str(index), **env},
                stdout=output if stdout is None else stdout,
                stderr=output,
                cwd=work,
            )

    def warden_env(self) -> dict[str, str]:
        """The variables by which a warden finds the launcher: by a name, as in another pod."""
        return {LAUNCHER: f"another-pod;{self.port};localhost;", SECRET: self.secret}

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait(DEADLINE_S)
            if process.stdout is not None:
                process.stdout.close()

    def _start(self, words, *, before=(), **more) -> subprocess.Popen:
        argv = [*before, sys.executable, "-I", "-S", self.archive, *words]
        process = subprocess.Popen(argv, start_new_session=True, **more)
        self._processes.append(process)
        return process


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
