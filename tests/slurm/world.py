"""The world of the contract of engines on a real cluster, and what else tests of it share."""

import secrets
import sys
from contextlib import contextmanager

from engines.attempts import lines
from trainshed.engines.base import EngineContext
from trainshed.engines.registry import open_engine
from trainshed.testing.engine_world import ShellWorld

#: What the batch job of a test sleeps with, so that it is found again.
SLEEPS = "#!/bin/sh\nexec sleep 600\n"


def options(cluster, **more):
    """The settings of the engine on the cluster of the tests."""
    return {
        "commands": str(cluster.bin),
        "spool": str(cluster.shared / "spool"),
        "lost_after_s": 2.0,
        "poll_s": 2.0,
        "python": sys.executable,
        "environments": {"tests": sys.executable},
        **more,
    }


class SlurmWorld(ShellWorld):
    """One installation on the cluster; its nodes keep no limits of memory."""

    limits_memory = False

    def __init__(self, cluster, folder):
        super().__init__(folder)
        self._cluster = cluster
        (cluster.shared / "spool").mkdir(exist_ok=True)
        self._names = [secrets.token_hex(4) for _ in range(2)]
        self._opened = []
        self._is_away = False

    def engine(self):
        return self._open(self._names[0])

    def elsewhere(self):
        return self._open(self._names[1])

    def _open(self, installation):
        context = EngineContext(
            jobs_dir=self._folder / installation / "jobs",
            name="slurm",
            installation=installation,
            buckets=self._folder / "buckets",
            cache_dir=self._folder / "cache",
            options=options(self._cluster),
        )
        self._opened.append(open_engine("slurm", context))
        if not self._is_away:
            self._opened[-1].fleet()  # it asks Slurm from now on
            self._cluster.wait_for(self._opened[-1].answered_s)
        return self._opened[-1]

    def close(self):
        """End the threads of all engines, then whatever jobs a failed test has left."""
        for engine in self._opened:
            engine.close()

    @property
    def jobs(self):
        """Where its attempts have their folders."""
        return self._cluster.shared / "spool" / self._names[0] / "jobs"

    def lose(self, key):
        """All processes of its allocation are killed, as an administrator may do."""
        self._cluster.kill_job(self._number_of(key))

    @contextmanager
    def leftover(self, key):
        """An allocation that bears the name of an attempt, and has no folder."""
        script = self._folder / "sleeps"
        script.write_text(SLEEPS)
        name, comment = f"ts-{self._names[0]}-{key.uid}", f"{key.uid}/{key.attempt}"
        flags = (f"--job-name={name}", f"--comment={comment}", "--output=/dev/null")
        number = self._cluster.run("sbatch", "--parsable", "--no-requeue", *flags, script).strip()
        try:
            self._cluster.wait_for(lambda: self._state(number) == "RUNNING")
            yield
        finally:
            self._cluster.run("scancel", number)
            self._cluster.wait_for(lambda: self._state(number) in {"", "CANCELLED"})

    @contextmanager
    def away(self):
        """Neither its controller answers, nor can be opened what attempts have recorded."""
        paths = list(self.jobs.glob("*/*/records.jsonl"))
        self._cluster.stop_controller()
        self._is_away = True
        for path in paths:
            path.rename(path.with_suffix(".aside"))
            path.symlink_to(path)
        try:
            yield
        finally:
            for path in paths:
                path.with_suffix(".aside").rename(path)
            self._cluster.start_controller()
            self._is_away = False

    @contextmanager
    def busy(self):
        """Nothing is started in the partition."""
        self._cluster.run("scontrol", "update", "partitionname=main", "state=down")
        try:
            yield
        finally:
            self._cluster.run("scontrol", "update", "partitionname=main", "state=up")

    @contextmanager
    def empty(self):
        """A squeue that has forgotten all: it ends well, and says nothing."""
        squeue = self._cluster.bin / "squeue"
        before = squeue.read_text()
        squeue.write_text("#!/bin/sh\n")
        try:
            yield
        finally:
            squeue.write_text(before)

    def evict(self, key):
        """Somebody urgent needs all nodes."""
        number = self._number_of(key)
        with self._cluster.everything_taken():
            self._cluster.wait_for(lambda: self._state(number) in {"", "PREEMPTED"})

    def lines(self, key):
        return lines(self.jobs, key)

    def _number_of(self, key):
        output = self._cluster.run("squeue", "-h", "-o", "%A %k")
        rows = (line.split() for line in output.splitlines())
        return next(number for number, comment, *_ in rows if comment == str(key))

    def _state(self, number):
        return self._cluster.run("squeue", "-h", "-j", number, "-o", "%T", check=False).strip()
