"""A Slurm in memory, behind its commands: it queues, and does what a test says to its jobs."""

import re
import threading
from itertools import count
from pathlib import Path

from engines.slurm_texts import CONFIG, NODES, PARTITIONS
from trainshed.engines.slurm.commands import CommandResult


class FakeSlurm:
    """What ``commands.run_program`` would have run."""

    def __init__(self):
        self.rows = {}
        self.names = {}
        """The names of all jobs, also of those that it has forgotten."""
        self.calls = []
        self.refusal = ""
        """What sbatch says instead of taking a job."""
        self.is_away = False
        self.away = CommandResult(1, err="Unable to contact slurm controller (connect failure)")
        """What every command says then."""
        self.accounts = ""
        """The state and the end of every job by sacct; empty: the cluster keeps no accounts."""
        self.sacct_error = "Slurm accounting storage is disabled"
        """What sacct says without accounts."""
        self.is_up = True
        """Whether its controller says of itself that it works."""
        self.version = "slurm-wlm 22.05.8"
        self.config = CONFIG
        self.left = "UNLIMITED\n"
        """How long jobs may still run."""
        self.before_answer = lambda: None
        """Called when sbatch has submitted and not yet said so."""
        self.before_nodes = lambda: None
        """Called before scontrol lists the nodes."""
        self.inherited = ()
        """The descriptors that the last command got that got any."""
        self._numbers = count(1)
        self._lock = threading.Lock()

    def __call__(self, argv, env, _seconds, descriptors):
        name, words = Path(argv[0]).name, argv[1:]
        self.calls.append((name, words, dict(env)))
        words = [word for word in words if not word.startswith("--clusters=")]
        self.inherited = descriptors or self.inherited
        if self.is_away:
            return self.away
        return getattr(self, f"_{name}")(*words)

    def called(self, name):
        return [words for command, words, _ in self.calls if command == name]

    def set(self, job, state, reason="None", nodes="n1"):
        """How a job is from now on."""
        with self._lock:
            row = self.rows[job]
            row.update(state=state, reason=reason, nodes=nodes)

    def forget(self, job):
        with self._lock:
            del self.rows[job]

    def add(self, name, comment, state="PENDING"):
        """A job that somebody else has submitted."""
        with self._lock:
            job = str(next(self._numbers))
            row = {"state": state, "reason": "Priority", "nodes": ""}
            self.names[job] = name
            self.rows[job] = {**row, "name": name, "comment": comment}
            return job

    def _sbatch(self, *words):
        if words == ("--version",):
            return CommandResult(0, self.version)
        if self.refusal:
            return CommandResult(1, err=self.refusal)
        options = dict(re.findall(r"^--(job-name|comment)=(.*)$", "\n".join(words), re.MULTILINE))
        job = self.add(options["job-name"], options["comment"])
        self.before_answer()
        return CommandResult(0, f"{job}\n")

    def _squeue(self, *words):
        if words[-1] != "%L" and "-j" in words:
            return CommandResult(0, self._list_ended(words, "{state}|1796015176", self.rows))
        if words[-1] == "%L":
            row = self.rows.get(words[words.index("-j") + 1])
            return (
                CommandResult(0, self.left)
                if row
                else CommandResult(1, err="Invalid job id specified")
            )
        only = next((word[7:] for word in words if word.startswith("--name=")), None)
        with self._lock:
            lines = [
                f"{job}|{row['state']}|{row['nodes']}|N/A|{row['name']}|{row['comment']}|"
                f"{row['reason']}"
                for job, row in self.rows.items()
                if only in {None, row["name"]}
            ]
        return CommandResult(0, "\n".join(lines) + "\n")

    def _sacct(self, *words):
        if not self.accounts:
            return CommandResult(1, err=self.sacct_error)
        return CommandResult(0, self._list_ended(words, self.accounts, self.names))

    def _list_ended(self, words, end, listed):
        jobs = words[words.index("-j") + 1].split(",")
        with self._lock:
            lines = [
                f"{job}|{self.names[job]}|{end.format(**self.rows.get(job, {}))}"
                for job in jobs
                if job in listed
            ]
        return "\n".join(lines)

    def _scancel(self, *words):
        if "--batch" not in words and words[0] in self.rows:
            self.set(words[0], "CANCELLED")
        return CommandResult(0)

    def _scontrol(self, *words):
        if words[0] == "update":
            self._update(**dict(word.split("=", 1) for word in words[1:]))
            return CommandResult(0)
        if words[:2] == ("show", "node"):
            self.before_nodes()
        texts = {
            "ping": f"Slurmctld(primary) at here is {'UP' if self.is_up else 'DOWN'}\n",
            "show config": self.config,
            "show node -o": NODES,
            "show partition -o": PARTITIONS,
        }
        return CommandResult(0, texts[" ".join(words)])

    def _update(self, jobid, comment):
        with self._lock:
            if jobid in self.rows:
                self.rows[jobid]["comment"] = comment
