"""Runs the only replica of an attempt in its launcher, without a warden.

One replica needs no second process of Trainshed, no step of the cluster and no connection: the
launcher is a supervisor, and runs the replica as a supervisor on one machine does.  The launcher
completes the replica with what its node knows, as a warden does.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from trainshed.engines.supervise.attempt import LauncherFunctions, RemoteContext
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import AttemptSpec, RemoteRule, ReplicaMarks
from trainshed.engines.warden.arrivals import Arrival, fill_marks, resolve_marks
from trainshed.engines.warden.completion import NodePython, complete_replica
from trainshed.engines.warden.task import compose_task

if TYPE_CHECKING:
    from trainshed.engines.supervise.attempt import Ending
    from trainshed.engines.supervise.replicas import Gang

#: The address of the only replica: no other replica connects to it.
_ADDRESS: Final = "127.0.0.1"


def complete(spec: AttemptSpec, folder: AttemptFolder, answer: Mapping[str, Any]) -> AttemptSpec:
    """Complete the only replica of a spec (``Completer``).

    Raises OSError if no ports are free, ValueError for an invalid answer of the preparer.
    """
    rule = spec.remote
    if rule is None or rule.has_wardens:
        raise ValueError("the plan has no replica for the launcher")
    replica = fill_marks(spec.replicas[0], _resolve_own_marks(rule))
    task = compose_task(spec, rule, 0, folder.path)
    replica = complete_replica(replica, task, os.environ, folder, _read_python(answer))
    return spec._replace(replicas=(replica,))


def _make_remote(context: RemoteContext) -> "tuple[Gang, Ending]":
    """Make the gang and the teardown of wardens; import their modules only for those."""
    from trainshed.engines.warden import teardown  # noqa: PLC0415 - see above

    return teardown.make(context)


def _watch_gpus(context: RemoteContext) -> str:
    """Start the helper that reads the GPUs of the replica; return the file that it writes."""
    rule = context.spec.remote
    if rule is None or not rule.has_gpus(0):
        return ""
    from trainshed.engines.warden import gpu_helper  # noqa: PLC0415 - few replicas have GPUs

    return gpu_helper.start_helper(
        context.loop,
        context.children,
        context.descriptors,
        note=context.output.note,
        mark=context.spec.mark,
        folder=context.folder,
    )


def _read_python(answer: Mapping[str, Any]) -> NodePython:
    """Read the answer of the preparer (``prepare``); empty: the job has no packages."""
    if not answer:
        return NodePython()
    try:
        return NodePython(str(answer["python"]), tuple(map(str, answer["entries"])))
    except (KeyError, TypeError) as error:
        raise ValueError(f"it must have python and entries, got {answer!r:.200}") from error


def _resolve_own_marks(rule: RemoteRule) -> dict[str, str]:
    """Map the marks of the replica to loopback and to free ports, released at once."""
    first, rendezvous = _choose_ports(rule.marks[0])
    arrival = Arrival(os.uname().nodename, _ADDRESS, first, rendezvous)
    return resolve_marks([arrival], rule.marks, lambda: "")


def _choose_ports(marks: ReplicaMarks) -> tuple[int, int]:
    """Choose the first of the replica's consecutive ports, and its rendezvous port; 0: none."""
    if not marks.ports and not marks.rendezvous:
        return 0, 0
    from trainshed.engines.warden.ports import PortReservation  # noqa: PLC0415 - imports much

    reservation = PortReservation()
    try:
        return reservation.take(len(marks.ports)), reservation.take(int(marks.rendezvous > 0))
    finally:
        reservation.release()


FUNCTIONS: Final = LauncherFunctions(_make_remote, complete, _watch_gpus)
