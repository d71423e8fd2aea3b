"""Runs Slurm's commands on this machine or on a login node, each with a time limit.

No local shell reads a command; over ssh the remote shell does, so every word is quoted.  The
commands get a small environment, because Slurm passes it to jobs and the server's environment has
secrets.
"""

import errno
import os
import shlex
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

#: Seconds for a command: longer than Slurm's own limit (MessageTimeout, 10 s), so that the server
#: gets Slurm's error message.
TIME_S_MAX: Final = 15.0
#: Seconds for sbatch: longer, because sbatch repeats a submission while the controller is busy.
SUBMIT_S_MAX: Final = 40.0
_CONNECTION_S: Final = 600
_CONNECT_S: Final = 10
#: Exit status of ssh if it could not run the command.
_SSH_FAILED: Final = 255
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Variables of the server's environment that Slurm's commands get; jobs can see them.
_PASSED: Final = ("HOME", "USER", "LOGNAME", "SLURM_CONF")
#: The variable with the token by which Slurm's commands identify their user, without munge.
TOKEN: Final = "SLURM_JWT"  # noqa: S105 - a name, no secret
_TOKEN_BYTES_MAX: Final = 1 << 16


class SlurmAway(OSError):
    """Slurm gives no answer; the caller should retry the command."""

    def __init__(self, words: str) -> None:
        """Create a transient error with this message."""
        super().__init__(errno.EAGAIN, words)

    def __str__(self) -> str:
        """Return the message without the error number."""
        return str(self.strerror)


class SlurmRefuses(Exception):
    """Slurm has refused a command; the message comes from Slurm."""


class CommandResult(NamedTuple):
    """The output of a command."""

    code: int
    out: str = ""
    err: str = ""


#: Runs a program: its words, its environment, a time limit in seconds, descriptors to inherit.
#: Raises OSError or subprocess.TimeoutExpired.
Run = Callable[[Sequence[str], Mapping[str, str], float, Sequence[int]], CommandResult]


def run_program(
    argv: Sequence[str], env: Mapping[str, str], seconds: float, descriptors: Sequence[int]
) -> CommandResult:
    """Run a program without input."""
    process = subprocess.run(  # noqa: S603 - Trainshed composes the words; no shell
        argv,
        env=env,
        timeout=seconds,
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd="/",
    )
    texts = (data.decode(errors="replace") for data in (process.stdout, process.stderr))
    return CommandResult(process.returncode, *texts)


#: Parts of the messages of Slurm and ssh for a controller that does not answer, in lower case.
_AWAY: Final = (
    "unable to contact slurm controller",
    "connection refused",
    "connection timed out",
    "timed out",
    "communication connection failure",
    "message receive failure",
    "message send failure",
    "rate limit exceeded",
    "zero bytes were transmitted",
    "problem talking to the database",
    "communication shutdown failure",
    "in standby",
    "unexpected message received",
    "munge",
    "authentication",
    "protocol authentication error",
    "configuration source",
    "incompatible versions",
    "insane message length",
    "slurmctld is not responding",
    "no route to host",
    "network is unreachable",
)


class Commands:
    """Runs Slurm's commands, and counts them."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        *,
        folder: str = "",
        ssh: str = "",
        control: str = "",
        cluster: str = "",
        passed: Sequence[str] = (),
        token_file: str = "",
        environ: Mapping[str, str] = os.environ,
        run: Run = run_program,
    ) -> None:
        """``folder`` contains the commands; empty: the commands are on the default path.

        Slurm hands the path to jobs, so ``folder`` is its last part: launchers need its srun.
        ``ssh`` is the login node on which the commands run; empty: this machine.  ``control`` is
        the socket of the ssh connection, which stays open between commands.  ``cluster`` is the
        cluster of a multi-cluster installation; empty: the default.  ``passed`` are the names of
        further variables of the server's environment for the commands, and ``token_file`` contains
        their token; empty: they need none.
        """
        self._folder = folder
        self._ssh = ssh
        self._control = control
        self._token_file = token_file
        self._cluster = (f"--clusters={cluster}",) if cluster else ()
        names = (*_PASSED, *passed, *(("SSH_AUTH_SOCK",) if ssh else ()))
        variables = {name: environ[name] for name in names if name in environ}
        path = f"{_PATH}:{folder}" if folder and not ssh else _PATH
        self._env = {"PATH": path, "LC_ALL": "C", **variables}
        self._run = run
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, bool]] = Counter()
        """Number of runs by command name and whether the command succeeded."""

    def ask(
        self,
        name: str,
        *words: str,
        env: Mapping[str, str] | None = None,
        seconds: float = TIME_S_MAX,
        descriptors: Sequence[int] = (),
    ) -> str:
        """Run a command and return its output.  Raises SlurmAway or SlurmRefuses."""
        own_env = {**self._env, **self._read_token(), **(env or {})}
        try:
            answer = self._run(self.argv(name, *words, env=env), own_env, seconds, descriptors)
        except subprocess.TimeoutExpired:
            self._count(name, is_well=False)
            raise SlurmAway(f"{name} did not answer within {seconds:g} s") from None
        except OSError as error:
            self._count(name, is_well=False)
            raise SlurmAway(
                f"cannot run {name}: {error.strerror or error}; "
                "check `commands` and `ssh` in [[engine]]"
            ) from error
        self._count(name, is_well=not answer.code)
        return self._read_output(name, answer)

    def _read_token(self) -> Mapping[str, str]:
        """Read the token anew, because tokens expire.  Raises SlurmAway."""
        if not self._token_file:
            return {}
        try:
            with open(self._token_file, "rb") as file:
                text = file.read(_TOKEN_BYTES_MAX).decode("ascii").strip()
        except (OSError, ValueError) as error:
            raise SlurmAway(
                f"cannot read the token of Slurm's commands: {error}; check `token_file` in "
                "[[engine]]"
            ) from error
        return {TOKEN: text.removeprefix(f"{TOKEN}=")}  # as `scontrol token` prints it

    def argv(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> list[str]:
        """Compose the command that this machine runs, with ssh if there is a login node."""
        command = [os.path.join(self._folder, name), *self._cluster, *words]
        if not self._ssh:
            return command
        if env:
            command = ["env", *(f"{variable}={text}" for variable, text in env.items()), *command]
        return [*self._ssh_argv(), shlex.join(command)]

    def _ssh_argv(self) -> list[str]:
        multiplexing = (f"ControlPath={self._control}", "ControlMaster=auto")
        options = (*multiplexing, f"ControlPersist={_CONNECTION_S}", f"ConnectTimeout={_CONNECT_S}")
        liveness = ("BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=2")
        words = [word for option in (*options, *liveness) for word in ("-o", option)]
        return ["ssh", "-T", *words, "--", self._ssh]

    def close(self) -> None:
        """Close the ssh connection, if there is one."""
        if self._ssh:
            argv = ["ssh", "-o", f"ControlPath={self._control}", "-O", "exit", "--", self._ssh]
            try:
                self._run(argv, self._env, 1.0, ())
            except (OSError, subprocess.TimeoutExpired):
                return

    def _read_output(self, name: str, answer: CommandResult) -> str:
        if not answer.code:
            return _drop_headings(answer.out) if self._cluster else answer.out
        words = " ".join(answer.err.split()) or f"{name} ended with status {answer.code}"
        is_ssh = bool(self._ssh) and answer.code == _SSH_FAILED
        if is_ssh or any(phrase in words.lower() for phrase in _AWAY):
            raise SlurmAway(words)
        raise SlurmRefuses(words)

    def _count(self, name: str, *, is_well: bool) -> None:
        with self._lock:
            self.counts[name, is_well] += 1


def _drop_headings(text: str) -> str:
    """Drop the lines that name the cluster, which ``--clusters`` adds."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("CLUSTER: "))
