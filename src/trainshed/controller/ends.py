"""How replicas ended, for people: by which signal, for want of memory, after a notice."""

import signal
from typing import Final

from trainshed.model.attempt import Observation, Outcome, ReplicaExit

#: What is mostly behind a signal, where nobody has measured it.
_HINTS: Final = {signal.SIGKILL: "out of memory?", signal.SIGBUS: "is /dev/shm full?"}
_UNIT: Final = 1024


def how(ended: ReplicaExit, *, noticed: bool) -> str:
    """``exited with status 137 (SIGKILL): out of memory after 3.0 s``, to follow its name.

    ``noticed``: its attempt was ordered to end, so what counts is what came of the notice.
    """
    when = _after_notice(ended) if noticed else f"after {ended.seconds:.1f} s"
    if not ended.stopped_by_us:
        return f"exited with {_status(ended)} after {ended.seconds:.1f} s"
    if ended.killed:
        return f"had to be killed {when}"
    return f"{'ended by itself' if noticed else 'was stopped'} {when}"


def data_of(ended: ReplicaExit) -> dict[str, object]:
    """The same for programs."""
    found = {
        "task_name": ended.task_name,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "peak_memory_bytes": ended.peak_memory_bytes,
        "oom": ended.oom or None,
        "notice_honoured": not ended.killed if ended.stopped_by_us else None,
    }
    always = ("task_name", "exit_code", "signal")
    return {key: value for key, value in found.items() if key in always or value is not None}


def failure(seen: Observation) -> str:
    """The error of a job whose program failed, as Vertex words it (contracts/vertex-sdk.md 4.1).

    Behind Vertex's words stand the signal and the memory, which it does not tell.
    """
    outcome = seen.outcome
    said = seen.fault or (outcome.message if outcome else "")
    decider = _decider(outcome) if outcome else None
    if outcome is None or decider is None or said.startswith("The replica "):
        return said or "The job could not be started."
    said = seen.fault or outcome.last_words  # its message begins with what is told here
    sentences = [
        f"The replica {decider.task_name} exited with a non-zero {_status(decider, 'status of ')}.",
        *(
            f"The replica {e.task_name} was out of memory{_peak(e)}."
            for e in outcome.replicas
            if e.oom and e is not decider and not decider.oom
        ),
    ]
    return " ".join([*sentences, said] if said else sentences)


def _decider(outcome: Outcome) -> ReplicaExit | None:
    own = [e for e in outcome.replicas if e.status and not e.stopped_by_us]
    deciders = [e for e in own if e.status == outcome.exit_code]
    return next(iter(deciders or own), None)


def _status(ended: ReplicaExit, word: str = "status ") -> str:
    text = f"{word}{ended.status}"
    if ended.signal is not None:
        text += f" ({_signal_name(ended)})"
    if ended.oom:
        return f"{text}: out of memory{_peak(ended)}"
    return text if ended.signal is None else text + _peak(ended)


def _signal_name(ended: ReplicaExit) -> str:
    """A real-time signal has only its number."""
    try:
        found = signal.Signals(ended.signal or 0)
    except ValueError:
        return f"signal {ended.signal}"
    is_known = ended.oom or (found is signal.SIGKILL and ended.peak_memory_bytes is not None)
    hint = None if is_known else _HINTS.get(found)
    return f"{found.name}, {hint}" if hint else found.name


def _peak(ended: ReplicaExit) -> str:
    if ended.peak_memory_bytes is None:
        return ""
    return f"; peak memory {_size(ended.peak_memory_bytes)}"


def _size(size_bytes: int) -> str:
    mib = size_bytes / _UNIT**2
    return f"{mib:.0f} MiB" if mib < _UNIT else f"{mib / _UNIT:.1f} GiB"


def _after_notice(ended: ReplicaExit) -> str:
    seconds = "" if ended.notice_s is None else f"{ended.notice_s:.1f} s "
    return f"{seconds}after the notice"
