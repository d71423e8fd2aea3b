"""Derives the outcome of an attempt from the exits of its replicas, by ``model.success``."""

import signal
from collections.abc import Sequence
from typing import Final

from trainshed.engines.supervise.record.output import Output
from trainshed.engines.supervise.record.records import Ended
from trainshed.engines.supervise.record.spec import AttemptSpec, ReplicaSpec
from trainshed.engines.supervise.replicas import Gang
from trainshed.model import success
from trainshed.model.attempt import Outcome
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.success import JobEnd

#: The outcome of an attempt that got the order to stop before its replicas started.
STOPPED_EARLY: Final = Outcome(
    exit_code=success.interrupted(signal.SIGTERM).exit_code,
    message="stopped before it was started",
    interrupted=True,
)


def advice_on(lines: Sequence[str], replica: ReplicaSpec) -> str:
    """Return advice on a known cause of a failure; empty if the last lines name no such cause."""
    from trainshed.model.advice import advice  # noqa: PLC0415 - only failures need it

    return advice(lines) or _advice_on_import(lines, replica)


def _advice_on_import(lines: Sequence[str], replica: ReplicaSpec) -> str:
    """Return advice on a failed import; empty if the program failed for another reason."""
    from trainshed.engines.supervise.own_modules import (  # noqa: PLC0415
        list_own_modules,
        list_runnable_modules,
        program_folders,
    )
    from trainshed.model.missing_modules import (  # noqa: PLC0415
        advise,
        advise_name,
        advise_program,
        misnamed_module,
        missing_module,
    )

    view = replica.isolation
    readable = (*view.reads, *view.writes) if view else ()
    folders = program_folders(replica.cwd, replica.env, readable)
    if name := misnamed_module(lines, replica.argv):
        return advise_name(name, list_runnable_modules(folders))
    if sentence := advise_program(lines):
        return sentence
    module = missing_module(lines) if replica.python else ""
    if not module:
        return ""
    import shutil  # noqa: PLC0415 - imports the modules of all kinds of archives

    python = shutil.which(replica.python, path=replica.env.get("PATH")) or replica.python
    return advise(module, python, list_own_modules(folders), replica.argv)


def end_with_fault(why: str) -> Ended:
    """Return the end of an attempt that could not start, or whose outcome is unknown."""
    return Ended(Outcome(exit_code=1, message=why), fault=why)


def end_without_memory(why: str, words: str) -> Ended:
    """Return the end of replicas that the cluster has killed for their memory, by its words.

    It is the program's own, as after a kill by the kernel of a node.
    """
    message = f"{why}: out of memory (the cluster says {words})"
    return Ended(Outcome(exit_code=SIGNAL_BASE + signal.SIGKILL, message=message))


class Judge:
    """Decides from the exits and last lines of replicas whether and how the job has ended."""

    def __init__(self, replicas: Gang, output: Output) -> None:
        self._replicas = replicas
        self._output = output
        self._drained: set[int] = set()

    def job_end(self, spec: AttemptSpec) -> JobEnd | None:
        """Return the end of the job; None: the exits so far do not decide it.

        Read all output of the ended replicas first.
        """
        self._drain_ended_replicas()
        primary = spec.replicas[0].task_name
        return success.job_end(primary, tuple(self._replicas.exits.values()))

    def outcome(self, spec: AttemptSpec, end: JobEnd) -> Outcome:
        """Return the outcome with a message, and log advice on a known failure."""
        last_words = self._find_last_words(spec, end)
        exit_text = "" if end.decider is None else self._replicas.end_words(end.decider.task_name)
        return Outcome(
            exit_code=end.exit_code,
            message=success.message(end, last_words, exit_text),
            last_words=last_words,
            interrupted=end.signum is not None,
        )

    def _find_last_words(self, spec: AttemptSpec, end: JobEnd) -> str:
        if end.decider is None or not end.exit_code:
            return ""
        name = end.decider.task_name
        lines = self._output.last_lines.get(name, ())
        replica = next(replica for replica in spec.replicas if replica.task_name == name)
        advice = advice_on(list(lines), replica)
        if advice:
            self._output.note(advice, "WARNING")
        return success.words_of(lines, advice)

    def _drain_ended_replicas(self) -> None:
        for index in self._replicas.exits.keys() - self._drained:
            self._output.drain(index)
            self._drained.add(index)


def have_settled(spec: AttemptSpec, replicas: Gang) -> bool:
    """Return whether all replicas that end by themselves have ended."""
    living = (spec.replicas[index] for index in replicas.living)
    return not any(success.ends_by_itself(replica.role) for replica in living)


def settle_s(spec: AttemptSpec, job_end: JobEnd) -> float:
    """Return how many seconds the other replicas have to end by themselves after the job's end."""
    roles = (replica.role for replica in spec.replicas)
    settles = job_end.exit_code == 0 and success.may_end_together(roles)
    return spec.settle_s if settles else 0.0
