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
    end: ReplicaExit,
    *,
    limit_bytes: int | None = None,
    children_killed: int = 0,
    machine_oom: bool = False,
) -> str:
    """Return how a replica ended, such as ``was killed by SIGKILL: out of memory``.

    The text follows the name of the replica.  Only the supervisor knows the other arguments: the
    replica's memory limit, how many of its processes the kernel killed at this limit, and whether
    the whole machine was out of memory.
    """
    if end.signal is None:
        text = f"exited with code {end.exit_code}"
    else:
        text = f"was killed by {signal_name(end.signal)}"
    peak = "" if end.peak_memory_bytes is None else f"peak {format_size(end.peak_memory_bytes)}"
    if machine_oom and not children_killed:
        return f"{text} while the machine was out of memory{_bracketed(peak)}"
    if end.oom and end.status:
        if children_killed and end.signal != signal.SIGKILL:
            text += f" after {children_killed} of its processes had been killed"
        limit = "" if limit_bytes is None else f" at its limit of {format_size(limit_bytes)}"
        return f"{text}: out of memory{limit}{_bracketed(peak)}"
    text += _bracketed(_hint(end))
    return f"{text}; peak memory {format_size(end.peak_memory_bytes)}" if _names_peak(end) else text


def when_stopped(end: ReplicaExit, *, noticed: bool) -> str:
    """Return how a replica ended, and after how many seconds.

    With ``noticed``, the replica got a notice: the seconds count from it.
    """
    after = f"after {end.seconds:.1f} s"
    if not end.stopped_by_us:
        return f"{describe_exit(end)} {after}"
    if noticed:
        after = f"{_notice_s(end)}after the notice"
    if end.killed:
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
    text = fault or outcome.last_words  # ``outcome.message`` repeats the first sentence
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
    """Return the name of a signal; a real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _decider(outcome: Outcome) -> ReplicaExit | None:
    own_exits = [e for e in outcome.replicas if e.status and not e.stopped_by_us]
    deciders = [e for e in own_exits if e.status == outcome.exit_code]
    return next(iter(deciders or own_exits), None)


def _status(end: ReplicaExit) -> str:
    text = str(end.status)
    if end.signal is not None:
        names = filter(None, (signal_name(end.signal), _hint(end)))
        text += f" ({', '.join(names)})"
    if end.oom:
        text += ": out of memory"
    return text + _peak(end) if end.oom or end.signal is not None else text


def _hint(end: ReplicaExit) -> str:
    """Return the usual cause, unless the memory of the replica was measured."""
    is_known = end.oom or (end.signal == signal.SIGKILL and end.peak_memory_bytes is not None)
    return "" if is_known or end.signal is None else _HINTS.get(end.signal, "")


def _names_peak(end: ReplicaExit) -> bool:
    return end.peak_memory_bytes is not None and end.status != 0


def _peak(end: ReplicaExit) -> str:
    peak_bytes = end.peak_memory_bytes
    return "" if peak_bytes is None else f"; peak memory {format_size(peak_bytes)}"


def _notice_s(end: ReplicaExit) -> str:
    return "" if end.notice_s is None else f"{end.notice_s:.1f} s "


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""
