"""The end of an attempt as its cluster reported it.

A cluster forgets its jobs.  So an engine stores such an end in the attempt's folder before it
reports the end.
"""

from functools import partial
from typing import NamedTuple

from trainshed.engines.spool import read_document
from trainshed.engines.supervise.judging import STOPPED_EARLY
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.engines.supervise.record.observe import AttemptRecords, decided_outcome
from trainshed.model.attempt import AttemptKey, Loss, Observation, Outcome
from trainshed.model.codec import decode, encode


class EndByCluster(NamedTuple):
    """The end of an attempt that its records do not show, or that its cluster confirms."""

    fault: str = ""
    loss: Loss | None = None
    """Set for an attempt that was lost."""
    nodes: tuple[str, ...] = ()
    """Nodes that the next attempt should avoid."""
    stands: bool = False
    """Whether the end in the attempt's records is the end of the attempt."""
    early: bool = False
    """Whether an order ended the attempt before the attempt began."""
    never: bool = False
    """Whether the attempt could never be started."""
    exit_code: int | None = None
    """The exit code if the cluster has ended a program that broke a limit of its own; else None.

    Such an end is the program's own: a restart is charged to the budget of the program, as after a
    kill of the program by the kernel of a node."""


def read_end(folder: AttemptFolder, name: str) -> EndByCluster | None:
    """Read the stored end of an attempt; None: there is none.  Raises OSError or ValueError.

    ``name`` is the file in which the engine stores ends.
    """
    return read_document(folder, name, partial(decode, EndByCluster))


def keep_end(folder: AttemptFolder, name: str, end: EndByCluster) -> None:
    """Store the end of an attempt durably.  Raises OSError."""
    write_json(f"{folder.path}/{name}", encode(end), durably=True)


def compose_end(
    key: AttemptKey, folder: AttemptFolder, records: AttemptRecords, end: EndByCluster
) -> Observation:
    """Compose the observation of an attempt that has ended so."""
    if end.stands and records.ended is not None:
        return observe.compose_observation(key, records)
    if end.stands and records.decided is not None:
        return observe.compose_ended(key, records, decided_outcome(records.decided))
    if end.early:
        return observe.compose_ended(key, records, STOPPED_EARLY)
    if end.exit_code is not None:
        outcome = Outcome(exit_code=end.exit_code, message=end.fault)
        return observe.compose_ended(key, records, outcome)
    if end.never:
        outcome = Outcome(exit_code=1, message=end.fault)
        return observe.compose_ended(key, records, outcome, end.fault)
    lost = observe.compose_lost(key, records, end.fault, folder)
    return lost._replace(loss=end.loss)
