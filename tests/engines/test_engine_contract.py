"""The local engine keeps the contract of engines."""

import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engines.attempts import lines, supervisor
from engines.isolating import isolation_of
from engines.support import DEADLINE_S, MARK
from engines.test_limits import enforces
from trainshed.engines.local.attempts import fence
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.model.launch_plan import Owner
from trainshed.testing.engine_world import ShellWorld
from trainshed.testing.program_contract import ProgramContract


class LocalWorld(ShellWorld):
    limits_memory = enforces(ReplicaLimits(memory_bytes=1 << 30))

    def __init__(self, root, mark, isolation=None):
        super().__init__(shared(root.parent))
        self._root, self._mark, self._isolation = root, mark, isolation
        self._opened = []

    def engine(self):
        return self._open(self._root)

    def elsewhere(self):
        return self._open(self._root.with_name("elsewhere"))

    def _open(self, root):
        self._opened.append(
            LocalEngine(root, LocalOptions(find_gpus=tuple, isolation=self._isolation))
        )
        return self._opened[-1]

    def close(self):
        for engine in self._opened:
            engine.close()

    def plan(self, key, *programs):
        plan = super().plan(key, *programs)
        marked = (replace(r, env={**r.env, MARK: self._mark}) for r in plan.replicas)
        # the folder of tests is to these programs what a bucket is to a job's
        binds = ((str(self._folder), "/gcs/contract"),)
        owner = Owner(project="contract", number=7)
        return replace(plan, replicas=tuple(marked), binds=binds, owner=owner)

    def lose(self, key):
        os.kill(supervisor(self._root, key), signal.SIGKILL)

    @contextmanager
    def leftover(self, key):
        """Of a job that has no folder any more, it is known by the paths that it was given."""
        folder = self._root / str(key.uid) / str(key.attempt)
        if folder.parent.exists():
            folder.mkdir()
        marks = {"TRAINSHED_JOB": str(key), "TRAINSHED_NOTICE_FILE": str(folder / "notice")}
        # the shell speaks when it has its environment: Popen returns a moment before
        script, ends = ["/bin/sh", "-c", "echo; read line"], subprocess.PIPE
        environ = {**os.environ, **marks}
        with subprocess.Popen(script, env=environ, stdin=ends, stdout=ends) as process:
            try:
                assert process.stdout.readline()
                yield
            finally:
                process.kill()

    @contextmanager
    def away(self):
        """What attempts have recorded cannot be opened: a link that leads to itself."""
        paths = list(self._root.glob("*/*/records.jsonl"))
        for path in paths:
            path.rename(path.with_suffix(".aside"))
            path.symlink_to(path)
        yield
        for path in paths:
            path.with_suffix(".aside").rename(path)

    def lines(self, key):
        return lines(self._root, key)


def shared(folder):
    """A folder of the test's that programs behind walls get to see."""
    path = folder / "shared"
    path.mkdir(exist_ok=True)
    return path


class TestLocalEngine(ProgramContract):
    mode = None

    @pytest.fixture
    def world(self, root, mark, monkeypatch):
        monkeypatch.setattr(fence, "_GONE_S_MAX", DEADLINE_S)
        world = LocalWorld(root, mark, self.mode and isolation_of(self.mode, root))
        yield world
        world.close()


class TestUsers(TestLocalEngine):
    mode = "users"
    #: What goes through the walls: programs, signals, files of other users, and what is left.
    QUICK = frozenset(
        {
            "test_a_gang_with_a_missing_program_is_a_fault_and_leaves_no_process",
            "test_a_job_is_forgotten_completely_but_not_while_it_lives",
            "test_a_launch_that_is_killed_anywhere_starts_it_once",
            "test_a_notice_says_why_and_until_when_before_the_signal",
            "test_a_program_finds_what_its_plan_says_and_no_secret",
            "test_a_program_that_ignores_sigterm_is_killed_after_the_shortest_grace",
            "test_a_replica_that_saves_after_the_end_of_the_primary_gets_time",
            "test_a_stop_ends_all_replicas_and_the_outcome_says_so",
            "test_every_line_is_kept_once_and_in_order",
            "test_nothing_is_left_whatever_it_has_forked",
            "test_replicas_have_addresses_and_attempts_have_folders",
            "test_reports_are_read_from_a_mark_to_the_last_one",
            "test_the_end_of_the_primary_is_the_outcome",
            "test_what_is_lost_is_gone_and_stays_so",
        }
    )


@pytest.mark.full
class TestLandlock(TestLocalEngine):
    mode = "landlock"


@pytest.mark.full
class TestSandbox(TestLocalEngine):
    mode = "sandbox"
