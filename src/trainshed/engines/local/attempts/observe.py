"""From what is known of an attempt to the observation that the controller is told."""

from pathlib import Path
from typing import Final

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.attempts.known import AttemptRecords, decided_outcome
from trainshed.model.attempt import AttemptKey, Observation, Outcome, Phase
from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN

_LAST_WORDS_LENGTH: Final = 2000


def told(key: AttemptKey, known: AttemptRecords) -> Observation:
    """What the records say of an attempt whose supervisor lives, or has told its end."""
    if known.ended is not None:
        if known.ended.lost:
            return _given_up(key, known, known.ended.fault or "")
        return ended(key, known, known.ended.outcome, known.ended.fault)
    phase = Phase.STARTING if known.ready is None else Phase.READY
    hung = tuple(known.hung.values())
    return Observation(key=key, phase=phase, task_names=_task_names(known), hung=hung)


def ended(
    key: AttemptKey, known: AttemptRecords, outcome: Outcome, fault: str | None = None
) -> Observation:
    """That no process of the attempt lives, and how it ended."""
    names = _task_names(known)
    return Observation(key=key, phase=Phase.ENDED, outcome=outcome, fault=fault, task_names=names)


def lost(
    key: AttemptKey, known: AttemptRecords, fault: str, ran_s: float | None = None
) -> Observation:
    """That no process of the attempt lives, and nobody can say how it ended."""
    names = _task_names(known)
    return Observation(key=key, phase=Phase.LOST, fault=fault, task_names=names, ran_s=ran_s)


def _given_up(key: AttemptKey, known: AttemptRecords, fault: str) -> Observation:
    """A fault of ours or of the machine; what had been decided before it stands."""
    if known.decided is not None:
        return ended(key, known, decided_outcome(known.decided))
    return lost(key, known, fault)


def ran_s(folder: AttemptFolder) -> float | None:
    """How long an attempt ran at the most, by the last sign of life in its folder.

    It may have been gone for days when somebody looks, as after a power cut.
    """
    signs = (Path(folder.records), *(Path(folder.path) / LOG_FOLDER).glob(SEGMENT_PATTERN))
    try:
        began_s = Path(folder.plan).stat().st_mtime
        shared = tuple(Path(folder.shared).glob("*"))
        return max(path.stat().st_mtime for path in (*signs, *shared)) - began_s
    except OSError:
        return None


def _task_names(known: AttemptRecords) -> tuple[str, ...]:
    return () if known.ready is None else known.ready.task_names


def last_words(folder: AttemptFolder) -> str:
    """The end of what the supervisor has said of itself; empty where it said nothing."""
    try:
        text = Path(folder.words).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text[-_LAST_WORDS_LENGTH:].strip().rpartition("\n")[2]
