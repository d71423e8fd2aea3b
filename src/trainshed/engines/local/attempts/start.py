"""Starts the supervisor of an attempt: writes its plan file, then makes the process.

Most attempts need no preparation, and their spec is complete.  For other attempts, a child of the
supervisor (``prepare``) installs packages, leases devices and completes the spec.
A supervisor outlives its server.  Its environment has no secrets, since the programs of users can
read it.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
from trainshed.engines.supervise.record.job_file import write_job_file
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
    """Set if the supervisor is not a child of this process: then its pid may be reused."""


def _fork_none(_folder: AttemptFolder, _env: Mapping[str, str]) -> Identity | None:
    return None


class AttemptStarter(NamedTuple):
    """Starts attempts on this machine."""

    devices: Sequence[GpuDevice]
    """The machine's GPUs; empty if GPUs are emulated."""
    hang: HangRule
    grace_s: float = GRACE_S
    """The time that processes get to end after their job is over, in seconds."""
    log: LogRule = LogRule()
    usage_s: float = 0.0
    """The seconds between two samples of the usage of replicas; 0: no samples."""
    fork: Callable[[AttemptFolder, Mapping[str, str]], Identity | None] = _fork_none
    """Forks a supervisor with a fork server; if it returns None, this process starts one."""

    def begin(
        self,
        key: AttemptKey,
        folder: AttemptFolder,
        preparation: Preparation,
        tether: int | None = None,
    ) -> Started:
        """Start a supervisor.  Raises OSError or EngineFault.

        ``tether`` is a socket to a command; the supervisor ends together with that command, and its
        programs get the whole environment of this process.
        """
        env = _select_environment(preparation) if tether is None else dict(os.environ)
        site = plan_file.site_of(preparation, key, folder, env)
        folder.make()
        folder.make_key()
        write_job_file(folder, key, preparation.plan)
        compose.make_ready(preparation.isolation, preparation.plan, folder)
        plan_file.write(folder.plan, self._compose_spec(site, preparation), preparation)
        if tether is None and (forked := self.fork(folder, env)):
            return Started(forked.pid, forked)
        env = {**env, FOLDER: folder.path}
        return Started(spawn(supervisor_argv(SUPERVISOR), env, folder.words, tether))

    def _compose_spec(self, site: ReplicaSite, preparation: Preparation) -> AttemptSpec:
        plan = preparation.plan
        compose_spec = partial(
            plan_file.spec_of,
            site,
            plan,
            hang=self.hang,
            log=self.log,
            grace_s=self.grace_s,
            usage_s=self.usage_s,
        )
        if preparation.takes_free or needs_preparer(plan):
            prepare = (sys.executable, "-P", "-m", PREPARING)
            return compose_spec(plan_file.outlines_of(site, plan), prepare=prepare)
        shares, notes = gpus.hidden_shares(plan.replicas, self.devices)
        home = JobPython(python=plan.environment.python)
        return compose_spec(plan_file.replicas_of(site, plan, home, shares), notes=notes)


def needs_preparer(plan: LaunchPlan) -> bool:
    """Return whether the job needs packages, devices, or a search for its interpreter.

    A job that requests devices needs the preparer also if the machine seems to have none: the
    preparer waits for the devices, and the job never begins without them.
    """
    return needs_packages(plan) or any(replica.gpu_count for replica in plan.replicas)


#: Signals that have their default effect in a supervisor, also if its parent ignores them.
_DEFAULT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)

#: Flags of Python with which only the standard library and Trainshed can be imported.
_FLAGS: Final = ("-I", "-S", "-c")
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.engines.supervise.main import main\n"
    "sys.exit(main(sys.argv[2]))"
)


def _select_environment(preparation: Preparation) -> dict[str, str]:
    """Return the environment of the supervisor, which its helpers and replicas inherit in part."""
    if preparation.variables is None:
        return variables.without_secrets(os.environ)
    return variables.select_for_helpers(os.environ, preparation.variables)


def supervisor_argv(role: str) -> tuple[str, ...]:
    """Return the command of a supervisor or of a fork server, by ``role``."""
    source = str(Path(trainshed.__file__).parent.parent)
    return (sys.executable, *_FLAGS, _CODE, source, role)


def spawn(
    argv: tuple[str, ...], env: Mapping[str, str], output: str | None, tether: int | None = None
) -> int:
    """Start a process in a session of its own; return its pid.  Raises OSError.

    ``output`` is the file for its stdout and stderr; the stderr of this process if None.
    ``tether`` is a socket to a command with which the process ends (``supervise.record.tether``).
    """
    empty_stdin = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    own_stderr = (os.POSIX_SPAWN_DUP2, 2, 1)
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=(
            empty_stdin if tether is None else (os.POSIX_SPAWN_DUP2, tether, 0),
            own_stderr if output is None else (os.POSIX_SPAWN_OPEN, 1, output, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT,
    )
