"""Starts the supervisor of an attempt: writes its plan file, then makes the process.

Most attempts need nothing that takes time, and their spec is complete.  Packages are installed
and devices are leased by a child of the supervisor (``preparing``), which completes it.
A supervisor outlives its server.  It has the environment without secrets, since programs of users
can read what it has.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import trainshed
from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.isolation import compose
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import Preparation, ReplicaSite
from trainshed.engines.local.devices import gpus
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.processes import variables
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.compose import GRACE_S, needs_packages
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import (
    FOLDER,
    SUPERVISOR,
    AttemptSpec,
    HangRule,
    LogRule,
)
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import LaunchPlan

PREPARING = "trainshed.engines.local.attempts.prepare"


class Started(NamedTuple):
    """A supervisor that was started."""

    pid: int
    forked: Identity | None = None
    """Set for one that is no child of this process: a pid alone may be a stranger's."""


def _not_forked(_folder: AttemptFolder, _env: Mapping[str, str]) -> Identity | None:
    return None


class AttemptStarter(NamedTuple):
    """How attempts are begun on this machine."""

    devices: Sequence[GpuDevice]
    """What the machine has; nothing where GPUs are emulated."""
    hang: HangRule
    grace_s: float = GRACE_S
    """What those get that live on when the job is over."""
    log: LogRule = LogRule()
    fork: Callable[[AttemptFolder, Mapping[str, str]], Identity | None] = _not_forked
    """Has a fork server make the supervisor; where it gives none, we start one ourselves."""

    def begin(
        self,
        key: AttemptKey,
        folder: AttemptFolder,
        preparation: Preparation,
        tether: int | None = None,
    ) -> Started:
        """Start a supervisor.  Raises OSError or EngineFault.

        ``tether`` is set for one that ends with the command that starts it; its programs get the
        whole of our environment.
        """
        env = _environment(preparation) if tether is None else dict(os.environ)
        site = plan_file.site_of(preparation, key, folder, env)
        folder.make()
        folder.make_key()
        compose.make_ready(preparation.isolation, preparation.plan, folder)
        plan_file.write(folder.plan, self._spec(site, preparation), preparation)
        if tether is None and (forked := self.fork(folder, env)):
            return Started(forked.pid, forked)
        env = {**env, FOLDER: folder.path}
        return Started(spawn(supervisor_argv(SUPERVISOR), env, folder.words, tether))

    def _spec(self, site: ReplicaSite, preparation: Preparation) -> AttemptSpec:
        plan = preparation.plan
        if preparation.takes_free or needs_preparer(plan):
            outlines = plan_file.outlines_of(site, plan)
            prepare = (sys.executable, "-P", "-m", PREPARING)
            return plan_file.spec_of(
                site,
                plan,
                outlines,
                prepare=prepare,
                hang=self.hang,
                log=self.log,
                grace_s=self.grace_s,
            )
        shares, notes = gpus.hidden(plan.replicas, self.devices)
        home = JobPython(python=plan.environment.python)
        replicas = plan_file.replicas_of(site, plan, home, shares)
        return plan_file.spec_of(
            site,
            plan,
            replicas,
            notes=notes,
            hang=self.hang,
            log=self.log,
            grace_s=self.grace_s,
        )


def needs_preparer(plan: LaunchPlan) -> bool:
    """Whether packages are to be installed, an interpreter to be found, or devices to be leased.

    Devices also where the machine seems to have none: a job that is to have some never begins
    without, and it is the preparer that waits.
    """
    return needs_packages(plan) or any(replica.gpu_count for replica in plan.replicas)


#: Signals that a supervisor is to hear, whatever its parent ignores.
_DEFAULT: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGCHLD,
)

#: Isolated, and without the packages of the interpreter: the standard library and our own source.
_FLAGS: Final = ("-I", "-S", "-c")
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.engines.supervise.main import main\n"
    "sys.exit(main(sys.argv[2]))"
)


def _environment(preparation: Preparation) -> dict[str, str]:
    """The supervisor's, of which its helpers and its replicas get theirs."""
    if preparation.variables is None:
        return variables.without_secrets(os.environ)
    return variables.select_for_helpers(os.environ, preparation.variables)


def supervisor_argv(word: str) -> tuple[str, ...]:
    """The command of a supervisor or of a fork server; ``word`` says which."""
    source = str(Path(trainshed.__file__).parent.parent)
    return (sys.executable, *_FLAGS, _CODE, source, word)


def spawn(
    argv: tuple[str, ...], env: Mapping[str, str], words: str | None, tether: int | None = None
) -> int:
    """Start a process in a session of its own; its pid.  Raises OSError.

    ``words`` is the file for what it says; our own stderr if None.
    ``tether`` is the descriptor of a command that it is to end with (``supervise.tether``).
    """
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    ours = (os.POSIX_SPAWN_DUP2, 2, 1)
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=(
            nothing if tether is None else (os.POSIX_SPAWN_DUP2, tether, 0),
            ours if words is None else (os.POSIX_SPAWN_OPEN, 1, words, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT,
    )
