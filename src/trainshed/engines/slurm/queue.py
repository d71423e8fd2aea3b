"""Reads and changes Slurm's queue with Slurm's commands."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from trainshed.engines.base import LaunchRefused
from trainshed.engines.slurm import parse
from trainshed.engines.slurm.commands import SUBMIT_S_MAX, Commands, SlurmAway, SlurmRefuses
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.engines.slurm.parse import Cancellation, SlurmJob
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault

#: The oldest release with command output that ``parse`` can read.
VERSION_MIN: Final = (22, 5)
#: Parts of sbatch's messages about limits on the number of queued jobs, in lower case.
_FULL: Final = (
    "maxsubmitjob",
    "submitjobslimit",
    "maxjobcount",
    "job submit limit",
    "temporarily unable to accept job",
    "resource temporarily unavailable",
)
#: If the message also contains one of these, it is about a limit on the size of a job.
_TOO_LARGE: Final = ("maxnode", "maxcpu", "maxwall", "maxtres", "maxmem", "minprio", "minutes")


class Queue:
    """Slurm's queue, through its commands.  Every call may raise SlurmAway."""

    def __init__(self, commands: Commands, installation: str) -> None:
        """Only jobs of this installation are listed."""
        self._commands = commands
        self.prefix: Final = f"ts-{installation}-"
        """Prefix of the names of all jobs of this installation."""

    def counts(self) -> Mapping[tuple[str, bool], int]:
        """Return the number of commands by name and whether they succeeded."""
        return dict(self._commands.counts)

    def jobs(self, name: str = "") -> list[SlurmJob]:
        """List the rows of this installation's jobs, also of jobs that have ended recently.

        ``name``: list only jobs with this name.
        """
        name_filter = (f"--name={name}",) if name else ()
        words = ("-h", "-a", "--me", "--states=all", *name_filter, "-o", parse.JOB_FORMAT)
        rows = parse.jobs(self._commands.ask("squeue", *words, env=parse.TIME_FORMAT))
        return [row for row in rows if row.name.startswith(self.prefix)]

    def left_s(self, job: str) -> float | None:
        """Return the seconds until the time limit of a job; None: unknown."""
        with suppress(SlurmRefuses):
            return parse.left_s(self._commands.ask("squeue", "-h", "-j", job, "-o", "%L"))
        return None

    def find_cancellations(
        self, uids: Mapping[str, int]
    ) -> tuple[Mapping[str, Cancellation], bool]:
        """Query who has cancelled jobs, and when; jobs that were not cancelled are left out.

        Also return False if Slurm keeps accounts, but they did not answer: they may know of more.
        ``uids`` has the uid of each job by its number in Slurm.  Slurm knows who only if it keeps
        accounts; they also know jobs that the queue has forgotten.
        """
        cancellations: dict[str, Cancellation] = {}
        is_complete = True
        for name, *words in (
            ("sacct", "-n", "-X", "-P", "--format=JobID,JobName,State,End"),
            ("squeue", "-h", "--states=all", "-o", "%i|%j|%T|%e"),
        ):
            numbers = [number for number in uids if number not in cancellations]
            if not numbers:
                break
            words += ["-j", ",".join(numbers)]
            try:
                rows = parse.cancellations(self._commands.ask(name, *words, env=parse.TIME_FORMAT))
            except SlurmRefuses:
                continue
            except SlurmAway as error:
                is_complete = is_complete and isinstance(error.__cause__, FileNotFoundError)
                continue
            # a controller that lost its state gives the same numbers again
            cancellations |= {
                job: cancellation
                for job, job_name, cancellation in rows
                if cancellation.at_s and job_name == f"{self.prefix}{uids.get(job)}"
            }
        return cancellations, is_complete

    def is_up(self) -> bool:
        """Return whether Slurm's controller answers a ping."""
        return parse.is_up(self._commands.ask("scontrol", "ping"))

    def version(self) -> tuple[int, int] | None:
        """Return the major and minor number of Slurm's release; None: unknown."""
        return parse.version(self._commands.ask("sbatch", "--version"))

    def config(self) -> str:
        """Return the cluster's configuration, one setting a line."""
        return self._commands.ask("scontrol", "show", "config")

    def cluster(self, gres: Mapping[str, Sequence[str]], config: str) -> ClusterState:
        """Query the nodes and the partitions; ``config`` is the cluster's configuration."""
        nodes = tuple(parse.nodes(self._commands.ask("scontrol", "show", "node", "-o")))
        partitions = parse.partitions(self._commands.ask("scontrol", "show", "partition", "-o"))
        limit = parse.memory_per_cpu_max(config)
        rows = {row.name: row.with_limit(limit) for row in partitions}
        if parse.preempts_by_qos(config):
            rows = {name: row._replace(gives_notice=True) for name, row in rows.items()}
        has_gpu_options, kills_steps = parse.has_gpu_options(config), parse.kills_steps(config)
        return ClusterState(nodes, rows, gres, has_gpu_options, kills_steps)

    def submit(self, words: Sequence[str], *locks: int) -> str:
        """Submit a job and return its number.  Raises EngineFault, or LaunchRefused to retry later.

        sbatch inherits the locks, so no other process submits while sbatch runs.
        """
        try:
            output = self._commands.ask("sbatch", *words, seconds=SUBMIT_S_MAX, descriptors=locks)
        except SlurmRefuses as refusal:
            raise _compose_refusal(str(refusal)) from refusal
        number = output.strip().partition(";")[0]
        if not number.isdecimal():
            raise OSError(f"sbatch must print a job number, got {output.strip()[:200]!r}")
        return number

    def compose_submission(self, words: Sequence[str]) -> list[str]:
        """Compose the whole command of a submission, as users see it."""
        return self._commands.argv("sbatch", *words)

    def cancel(self, job: str) -> None:
        """Cancel a job in any state."""
        self._change(job)

    def comment(self, job: str, text: str) -> None:
        """Replace the comment of a job."""
        self._change("update", f"jobid={job}", f"comment={text}", command="scontrol")

    def look_now(self, job: str) -> None:
        """Send SIGUSR1 to the launcher of a job, which then reads its stop order."""
        self._change("--batch", "--signal=USR1", job)

    def _change(self, *words: str, command: str = "scancel") -> None:
        with suppress(SlurmRefuses):  # the job has ended already
            self._commands.ask(command, *words)


def _compose_refusal(words: str) -> Exception:
    lower = words.lower()
    if any(phrase in lower for phrase in _FULL) and not any(
        phrase in lower for phrase in _TOO_LARGE
    ):
        text = f"the cluster accepts no more jobs of this user for now (Slurm says: {words})"
        return LaunchRefused(Explanation(reason=Reason.ENGINE_FULL, message=text))
    advice = next((text for phrase, text in _ADVICE.items() if phrase in lower), "")
    return EngineFault(f"Slurm refuses the job: {words}{advice}")


_ADVICE: Final[Mapping[str, str]] = {
    "invalid account": "; the engine's `account` and the label trainshed-slurm-account name the "
    "account to charge: `sacctmgr show assoc user=$USER` lists the accounts that you may use",
    "invalid qos": "; the engine's `qos` and the label trainshed-slurm-qos set it: "
    "`sacctmgr show assoc user=$USER format=qos` lists the values that you may use",
    "invalid partition": "; the engine's `partition` and the label trainshed-slurm-partition "
    "set it: `sinfo` lists the partitions",
    "time limit is invalid": "; set scheduling.timeout, or the engine's `time_max_s` for jobs that "
    "set none: `sinfo -o '%P %l'` lists the limits of the partitions",
    "reservation": "; the engine's `reservation` and the label trainshed-slurm-reservation "
    "set it: `scontrol show reservation` lists the reservations",
}
