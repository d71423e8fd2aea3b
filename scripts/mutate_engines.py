"""Does the contract of engines notice mistakes?  Each mutation is one.

Of ``fake`` and ``local`` the contract alone is run:

    python scripts/mutate_engines.py fake
    python scripts/mutate_engines.py local        # slow: an hour on a busy machine
    python scripts/mutate_engines.py local 7 12   # these only, by their numbers
    python scripts/mutate_engines.py slurm        # its own quick tests first, then the contract

The contract of ``slurm`` needs a cluster (``make slurm``); TRAINSHED_MUTATE=quick leaves it out.

Sources are changed in a copy.  A mutation that the contract does not notice is printed as SURVIVED,
one whose text the source has no more as GONE: write it anew.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from compileall import compile_dir
from contextlib import suppress
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final, NamedTuple

from slurm_mutations import SLURM

ROOT: Final = Path(__file__).parent.parent


class Run(NamedTuple):
    """Some tests, and how many seconds they may take."""

    tests: tuple[str, ...]
    seconds: float = 120.0


_QUICK: Final = os.environ.get("TRAINSHED_MUTATE") == "quick"
_OF_SLURM: Final = Run(
    tuple(
        f"tests/engines/test_slurm_{name}.py"
        for name in ("script", "states", "spool", "unreachable", "options", "judge", "engine")
    ),
    200.0,
)
_OF_WARDENS: Final = Run(
    ("tests/warden/test_marks.py", "tests/warden/test_trouble.py", "tests/warden/test_attempts.py"),
    300.0,
)
_ON_CLUSTER: Final = Run(("tests/slurm/test_engine_contract.py",), 600.0)
#: What is run of a kind, one after the other until a mistake is noticed.
RUNS: Final = {
    "fake": (Run(("tests/testing/test_fake_contract.py",)),),
    "local": (Run(("tests/engines/test_engine_contract.py",)),),
    "slurm": (_OF_SLURM, _OF_WARDENS) if _QUICK else (_OF_SLURM, _OF_WARDENS, _ON_CLUSTER),
}
#: Mutants may wait for what never comes.
DEADLINES: Final = {
    "fake": "DEADLINE_S: Final = 3.0",
    "local": "DEADLINE_S: Final = 12.0",
    "slurm": "DEADLINE_S: Final = 60.0",
}


_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) .*::(\S+)", re.MULTILINE)


class Mutation(NamedTuple):
    """One change of one line; ``file`` is below ``src/trainshed``."""

    file: str
    old: str
    new: str


_ENGINE: Final = "testing/fake_engine.py"
_ATTEMPT: Final = "testing/fake_engine.py"
FAKE: Final = tuple(
    Mutation(*row)
    for row in (
        (_ENGINE, "if self._knows(key):", "if False:"),
        (_ENGINE, "(world.attempts, world.stopped, world.queue,", "(world.attempts, world.queue,"),
        (_ENGINE, "if script.fault is not None:", "if False:"),
        (_ENGINE, "self._world.stopped.add(key)", "pass"),
        (
            _ENGINE,
            "self._world.attempts[key].stop(self._monotonic(), order)\n                self",
            "self",
        ),
        (
            _ENGINE,
            "return [self._observe_one(key) for key in keys]",
            "return [self._observe_one(key) for key in sorted(keys)]",
        ),
        (
            _ENGINE,
            "return [Observation(key=key, phase=Phase.UNKNOWN) for key in keys]",
            "return [Observation(key=key, phase=Phase.LOST) for key in keys]",
        ),
        (_ENGINE, "return Measured(mark=after)", "return Measured(mark=0)"),
        (
            _ENGINE,
            "return attempt.measured(self._monotonic(), after)",
            "return attempt.measured(self._monotonic(), 0)",
        ),
        (_ENGINE, "phases |= dict.fromkeys(self.leftovers, Phase.UNKNOWN)", "pass"),
        (
            _ENGINE,
            "dict.fromkeys(self.leftovers, Phase.UNKNOWN)",
            "dict.fromkeys(self.leftovers, Phase.READY)",
        ),
        (_ENGINE, "if self._lives(key) else ()", "if True else ()"),
        (_ENGINE, "if any(self._lives(key) or not self._admit(key) for", "if any(False for"),
        (_ENGINE, "*world.stopped, *self.leftovers}", "*world.stopped}"),
        (_ENGINE, "if key.uid == uid]", "]"),
        (_ENGINE, "self._world.attempts.pop(key, None)", "pass"),
        (_ENGINE, "self._world.stopped.discard(key)", "pass"),
        (_ENGINE, "self._callback = callback", "pass"),
        (_ENGINE, "self._callback((key,))", "pass"),
        (_ENGINE, "return key in self.leftovers or", "return False or"),
        (_ENGINE, "range(1, key.attempt + 1)", "range(1, 2)"),
        (_ENGINE, "for earlier in attempts[:-1]", "for earlier in attempts"),
        (_ENGINE, 'host=f"{role.value}-{index}"', 'host="localhost"'),
        (_ENGINE, "rendezvous_port=_PORT + ports", "rendezvous_port=_PORT"),
        (_ENGINE, 'metrics=f"{attempts[-1]}/metrics"', 'metrics="/metrics"'),
        (_ENGINE, "return never_started(key)", "return Observation(key=key, phase=Phase.UNKNOWN)"),
        (
            _ENGINE,
            "if observation is None:\n            observation = attempt.look",
            "if True:\n            observation = attempt.look",
        ),
        (_ATTEMPT, "now >= min(self._own_end, self._ordered_end):", "now >= self._ordered_end:"),
        (_ATTEMPT, "code = SIGNAL_BASE + number if number else", "code = number if number else"),
        (_ATTEMPT, "signal=number, oom", "signal=None, oom"),
        (_ATTEMPT, ", oom=self.script.oom)", ")"),
        (
            _ATTEMPT,
            "self._kill_at = min(self._kill_at, now + order.grace_s)",
            "self._kill_at = now + order.grace_s",
        ),
        (
            _ATTEMPT,
            "self._kill_at = min(self._kill_at, now + order.grace_s)",
            "self._kill_at = min(self._kill_at, now)",
        ),
        (
            _ATTEMPT,
            "if self._noticed_at is None:\n            self._noticed_at = now",
            "if True:\n            self._noticed_at = now",
        ),
        (_ATTEMPT, 'code = None if how.get("signal") else exit_code', "code = exit_code"),
        (_ATTEMPT, "phase=Phase.LOST,", "phase=Phase.ENDED,"),
        (_ATTEMPT, 'return why.get(loss, "the machine was lost") if loss', 'return "" if True'),
        (_ATTEMPT, "signum = _SIGKILL if killed else _SIGTERM", "signum = _SIGTERM"),
        (_ATTEMPT, '"stopped_by_us": True,', '"stopped_by_us": False,'),
        (_ATTEMPT, '"killed": killed,', '"killed": False,'),
        (_ATTEMPT, '"notice_s": self._ordered_end - since,', '"notice_s": None,'),
        (
            _ATTEMPT,
            "SIGNAL_BASE + _SIGTERM, exits, interrupted=True",
            "SIGNAL_BASE + _SIGTERM, exits",
        ),
        (_ATTEMPT, "SIGNAL_BASE + _SIGTERM, exits", "SIGNAL_BASE + signum, exits"),
        (_ATTEMPT, "all_of_it[after:mark]", "all_of_it[:mark]"),
        (_ATTEMPT, "<= until:", "< until - 1:"),
        (_ATTEMPT, 'message="stopped early", interrupted=True', 'message="stopped early"'),
        (_ATTEMPT, "task_names=names, hung=self._hung", "hung=self._hung"),
        (
            _ATTEMPT,
            "exit_code=exit_code,\n            replicas=exits",
            "exit_code=0,\n            replicas=exits",
        ),
    )
)

_LOCAL: Final = "engines/local/engine.py"
_LOCAL_ATTEMPT: Final = "engines/local/attempts/attempt.py"
_FIND: Final = "engines/local/attempts/find.py"
_FENCE: Final = "engines/local/attempts/fence.py"
_FOLDER: Final = "engines/supervise/record/folder.py"
_RUN: Final = "engines/supervise/attempt.py"
_ENDING: Final = "engines/supervise/ending.py"
_JUDGING: Final = "engines/supervise/judging.py"
_REPLICAS: Final = "engines/supervise/replicas.py"
_SPAWN: Final = "engines/supervise/kernel/spawn.py"
_FORK: Final = "engines/local/attempts/fork.py"
_FORK_SERVER: Final = "engines/supervise/helpers/fork_server.py"
_SEGMENTS: Final = "engines/supervise/record/segments.py"
LOCAL: Final = tuple(
    Mutation(*row)
    for row in (
        (_LOCAL, "if attempt.may_begin():", "if True:"),
        (_LOCAL, "attempt.folder.give_order(supervisor_order)", "pass"),
        (_LOCAL, "attempt.tell(supervisor_order)", "pass"),
        (
            _LOCAL,
            "return Observation(key=key, phase=Phase.UNKNOWN)",
            "return Observation(key=key, phase=Phase.LOST)",
        ),
        (_LOCAL, "for number in range(1, key.attempt)", "for number in range(1, key.attempt + 1)"),
        (
            "engines/network/addresses.py",
            "free_runs((*(replica.ports for replica in shape), 1), start)",
            "free_runs((*(1 for replica in shape), 1), start)",
        ),
        (_LOCAL, "if any(map(self._lives, keys)):", "if False:"),
        (_LOCAL, "self._drop(key)\n        with", "pass\n        with"),
        (_LOCAL, "remove_tree(folder)", "pass"),
        (_LOCAL, "return phase in ALIVE", "return phase is Phase.STARTING"),
        (_LOCAL, "or bool(marked(str(key)))", ""),
        (_LOCAL, "self._ends.watch(key, attempt.child)", "pass"),
        (_LOCAL, "self._ends.close()", "pass"),
        (_FORK, "self._channel if env == self._env else None", "self._channel"),
        (_FORK, "self.close()\n            return None", "raise"),
        (_FORK_SERVER, "os.setsid()", "pass"),
        (_FORK_SERVER, "answer = (error.errno,)", "raise"),
        (_LOCAL_ATTEMPT, "return not identity.lives(self.forked)", "return True"),
        (_LOCAL_ATTEMPT, "return self.folder.stop_order() is None", "return True"),
        (
            _LOCAL_ATTEMPT,
            "if self.records.began is not None or self.is_running():",
            "if self.is_running():",
        ),
        (
            _LOCAL_ATTEMPT,
            "if not sweeper.is_clean(self.key, began, self.folder):",
            "if False:",
        ),
        (
            _LOCAL_ATTEMPT,
            "if self.records.ended is None:\n            if not self._lives():",
            "if self.records.ended is None:\n            if True:",
        ),
        (
            _LOCAL_ATTEMPT,
            "return observe.ended(self.key, self.records, STOPPED_EARLY)",
            "return Observation(key=self.key, phase=Phase.UNKNOWN)",
        ),
        (
            _FIND,
            "is_ours = key and (_path(root, key).exists() or any(",
            "is_ours = key and (True or any(",
        ),
        (
            _FIND,
            "AttemptFolder(_path(root, key)), living[key])",
            "AttemptFolder(_path(root, key)), [])",
        ),
        (_FIND, "keys.union(living)", "keys"),
        (
            _FIND,
            "if is_attended or records.ended else Phase.UNKNOWN",
            "if records.ended else Phase.UNKNOWN",
        ),
        (_FENCE, "return folder.is_held() or", "return False and"),
        (_FOLDER, "if self.grace_s >= before.grace_s:", "if False:"),
        (_FOLDER, "if self.grace_s >= before.grace_s:", "if True:"),
        (
            _FOLDER,
            "except BlockingIOError:\n            os.close(descriptor)\n            return None",
            "except BlockingIOError:\n            pass",
        ),
        ("engines/local/end_watcher.py", "if self._callback is not None:", "if False:"),
        ("engines/local/end_watcher.py", "os.eventfd_write(self._stop, 1)", "pass"),
        (
            "engines/supervise/record/observe.py",
            "_read_on(folder.reports, after)",
            "_read_on(folder.reports, 0)",
        ),
        (
            "engines/supervise/record/observe.py",
            "mark=after + len(whole) + len(newline)",
            "mark=len(whole) + len(newline)",
        ),
        (
            "engines/supervise/compose.py",
            "**mark_of(key),\n        trainer_contract.ATTEMPT",
            "trainer_contract.ATTEMPT",
        ),
        (
            "engines/local/attempts/start.py",
            "variables.without_secrets(os.environ)",
            "dict(os.environ)",
        ),
        ("engines/local/attempts/plan_file.py", "if name not in plan.unset_env", ""),
        (
            _RUN,
            "self._job_end = success.interrupted(signal.SIGTERM, new.message)",
            "self._job_end = None",
        ),
        (_RUN, "if self.children.any_left or self._tree.living():", "if False:"),
        (_RUN, "if new is None:", "if False:"),
        (
            _RUN,
            "return self.output.finish() and self._go(self._waiting)",
            "return self._go(self._waiting)",
        ),
        (_ENDING, "self._give_notice(order)\n", "\n"),
        (_ENDING, "            self._replicas.terminate()", "            pass"),
        (
            _ENDING,
            "self._timer = self._loop.at(kill_s, self._kill)",
            "self._timer = self._loop.at(kill_s + 60, self._kill)",
        ),
        (
            _ENDING,
            "kill_s = self._loop.now() + grace_s",
            "kill_s = self._loop.now()",
        ),
        (_ENDING, "until = time.time() + max(0.0, order.grace_s)", "until = time.time()"),
        (_SPAWN, "os.dup2(nothing, 0)", "pass"),
        (_SPAWN, "os.chdir(command.cwd)", "pass"),
        (_SEGMENTS, "max(self._clock(), self._last_ns + 1)", "self._clock()"),
        (_SEGMENTS, "del self._gathered[:count]", "self._gathered.clear()"),
        (
            "model/success.py",
            "return None if failed is None else JobEnd(exit_code=failed.status, decider=failed)",
            "return None",
        ),
        ("model/success.py", "return role is not Role.REDUCER", "return False"),
        ("model/success.py", "return Role.PARAMETER_SERVER not in roles", "return False"),
        (_JUDGING, "return spec.settle_s if settles else 0.0", "return 0.0"),
        (_JUDGING, "settles = job_end.exit_code == 0 and", "settles ="),
        (
            _REPLICAS,
            "oom=ran_out_of_memory(usage, index in self._killed, was_killed=was_killed)",
            "oom=False",
        ),
        (
            "engines/supervise/compose.py",
            "memory_bytes=replica.memory_bytes_max,",
            "memory_bytes=None,",
        ),
        ("model/exits.py", "if ended.oom and ended.status:", "if False:"),
        ("model/success.py", "if ended is not None and ended.status == 0:", "if False:"),
        (
            "engines/supervise/leftovers.py",
            "tree.kill_listed(lambda: {*marked(mark), *below(reaper)})",
            "pass",
        ),
    )
)
ALL: Final = {
    "fake": FAKE,
    "local": LOCAL,
    "slurm": tuple(Mutation(*row) for row in SLURM),
}


def main() -> int:
    """Try the mutations of an engine; 1 if any survives or is gone."""
    kind, *numbers = sys.argv[1:]
    chosen = {int(number) for number in numbers} or set(range(1, len(ALL[kind]) + 1))
    words: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        kit = source / "trainshed/testing/engine_contract.py"
        impatient = kit.read_text().replace("DEADLINE_S: Final = 60.0", DEADLINES[kind])
        kit.write_text(impatient)
        compile_dir(folder, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        if any(_word(run, source) != "SURVIVED" for run in RUNS[kind]):
            print("the contract fails without any mutation")
            return 1
        for number, mutation in enumerate(ALL[kind], 1):
            if number in chosen:
                word, _, test_names = _tried(kind, mutation, source).partition(" ")
                words[word] = words.get(word, 0) + 1
                text = " ".join(mutation.old.split())[:70]
                print(f"{number:3} {word:8} {mutation.file}: {text}  {test_names}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    return int(set(words) != {"caught"})


def _tried(kind: str, mutation: Mutation, source: Path) -> str:
    path = source / "trainshed" / mutation.file
    before = path.read_text()
    if mutation.old not in before:
        return "GONE"
    mutant = before.replace(mutation.old, mutation.new, 1)
    compile(mutant, str(path), "exec")  # or the contract would catch bad grammar
    path.write_text(mutant)
    words = (_word(run, source) for run in _runs(kind, mutation))
    try:
        return next((word for word in words if word != "SURVIVED"), "SURVIVED")
    finally:
        path.write_text(before)


def _runs(kind: str, mutation: Mutation) -> tuple[Run, ...]:
    """The engine's own tests never start a warden, and those of wardens never the engine."""
    strange = _OF_WARDENS if mutation.file.startswith("engines/slurm/") else _OF_SLURM
    return tuple(run for run in RUNS[kind] if run is not strange)


def _word(run: Run, source: Path) -> str:
    """What some tests say of a copy of the sources, and which of them said it."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *run.tests]
    env = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, start_new_session=True)
        try:
            if not child.wait(run.seconds):
                return "SURVIVED"
            out.seek(0)
            return f"caught {' '.join(_FAILED.findall(out.read()))}"
        except subprocess.TimeoutExpired:
            return "caught it hangs"
        finally:
            _kill_all(str(source))
            child.wait()


def _kill_all(mark: str) -> None:
    """What a mutant has left: all that was started with the copy on its path."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline and (pids := list(_marked(f"PYTHONPATH={mark}".encode()))):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _marked(entry: bytes) -> list[int]:
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry in (path / "environ").read_bytes().split(b"\0"):
                pids.append(int(path.name))
    return pids


if __name__ == "__main__":
    sys.exit(main())
