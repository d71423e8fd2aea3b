"""Describes how a replica ended, for its log and for the events and the error of its job."""

import signal
from typing import Final

from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.texts import format_size

#: The usual cause of a signal, if it was not measured.
_HINTS: Final[dict[int, str]] = {
    signal.SIGKILL: "out of memory?",
    signal.SIGBUS: "is /dev/shm full?",
}


def describe_exit(
    ended: ReplicaExit,
    *,
    limit_bytes: int | None = None,
    children_killed: int = 0,
    machine_oom: bool = False,
) -> str:
    """Return how it ended, after its name: ``was killed by SIGKILL: out of memory (peak 2.0 GiB)``.

    Only its supervisor knows the arguments after ``ended``: the limit of its memory, how many of
    its processes the kernel killed for it, and whether the whole machine was out of memory.
    """
    if ended.signal is None:
        text = f"exited with code {ended.exit_code}"
    else:
        text = f"was killed by {signal_name(ended.signal)}"
    peak = "" if ended.peak_memory_bytes is None else f"peak {format_size(ended.peak_memory_bytes)}"
    if machine_oom and not children_killed:
        return f"{text} while the machine was out of memory{_bracketed(peak)}"
    if ended.oom and ended.status:
        if children_killed and ended.signal != signal.SIGKILL:
            text += f" after {children_killed} of its processes had been killed"
        limit = "" if limit_bytes is None else f" at its limit of {format_size(limit_bytes)}"
        return f"{text}: out of memory{limit}{_bracketed(peak)}"
    text += _bracketed(_hint(ended))
    return (
        f"{text}; peak memory {format_size(ended.peak_memory_bytes)}" if _is_said(ended) else text
    )


def when_stopped(ended: ReplicaExit, *, noticed: bool) -> str:
    """Return the same with the time; with ``noticed``, also the effect of its notice."""
    after = f"after {ended.seconds:.1f} s"
    if not ended.stopped_by_us:
        return f"{describe_exit(ended)} {after}"
    if noticed:
        after = f"{_notice_s(ended)}after the notice"
    if ended.killed:
        return f"had to be killed {after}"
    return f"{'ended by itself' if noticed else 'was stopped'} {after}"


def failure(outcome: Outcome | None, fault: str | None) -> str:
    """Return the error of a failed job in Vertex's words (docs/sources/vertex.md 4.1).

    After Vertex's words come the signal and the memory, which Vertex does not name.
    """
    text = fault or (outcome.message if outcome else "")
    decider = _decider(outcome) if outcome else None
    if outcome is None or decider is None or text.startswith("The replica "):
        return text or "The job could not be started."
    text = fault or outcome.last_words  # its message begins with these words
    sentences = [
        f"The replica {decider.task_name} exited with a non-zero status of {_status(decider)}.",
        *(
            f"The replica {e.task_name} was out of memory{_peak(e)}."
            for e in outcome.replicas
            if e.oom and e is not decider and not decider.oom
        ),
    ]
    return " ".join([*sentences, text] if text else sentences)


def signal_name(number: int) -> str:
    """The name of a signal; a real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _decider(outcome: Outcome) -> ReplicaExit | None:
    own = [e for e in outcome.replicas if e.status and not e.stopped_by_us]
    deciders = [e for e in own if e.status == outcome.exit_code]
    return next(iter(deciders or own), None)


def _status(ended: ReplicaExit) -> str:
    text = str(ended.status)
    if ended.signal is not None:
        names = filter(None, (signal_name(ended.signal), _hint(ended)))
        text += f" ({', '.join(names)})"
    if ended.oom:
        text += ": out of memory"
    return text + _peak(ended) if ended.oom or ended.signal is not None else text


def _hint(ended: ReplicaExit) -> str:
    """Return the usual cause, unless the memory of the replica was measured."""
    is_known = ended.oom or (ended.signal == signal.SIGKILL and ended.peak_memory_bytes is not None)
    return "" if is_known or ended.signal is None else _HINTS.get(ended.signal, "")


def _is_said(ended: ReplicaExit) -> bool:
    return ended.peak_memory_bytes is not None and ended.status != 0


def _peak(ended: ReplicaExit) -> str:
    peak_bytes = ended.peak_memory_bytes
    return "" if peak_bytes is None else f"; peak memory {format_size(peak_bytes)}"


def _notice_s(ended: ReplicaExit) -> str:
    return "" if ended.notice_s is None else f"{ended.notice_s:.1f} s "


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""
