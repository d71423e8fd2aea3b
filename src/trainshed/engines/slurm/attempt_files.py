"""Reads and writes what this engine keeps in the folder of an attempt, besides the usual records.

These are the submission, the end as Slurm reported it, and the claim of the job that runs the
attempt.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from trainshed.engines import cluster_end
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.slurm import parse
from trainshed.engines.spool import read_claim, read_document
from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.records import Ended
from trainshed.model.roles import Role

_SUBMITTED: Final = "slurm.json"
_ENDED: Final = "slurm-end.json"
_NUMBER_MAX: Final = 32
_NODES_MAX: Final = 100_000


class Placing(NamedTuple):
    """The replicas of one part of an attempt; ``spread`` derives their nodes."""

    replicas: tuple[tuple[Role, int], ...]
    per_node: int | None = None
    """Number of replicas on a node of a packed allocation; None: as the claim says."""


class SpoolRecord(NamedTuple):
    """The record of a submission, written before sbatch runs and again with the job's number."""

    since_s: float
    job: str = ""
    """Slurm's number; empty: not known yet."""
    parts: tuple[Placing, ...] = ()
    shape: str = ""
    """A hash of the request to Slurm."""
    kept: int = 0
    """Number of the attempt whose allocation was kept for this attempt; 0: a new allocation."""
    gpu_words: tuple[str, ...] = ()
    """Slurm's words for the GPUs of the parts; empty: written by an earlier release."""


def read_submission(folder: AttemptFolder) -> SpoolRecord | None:
    """Read the record of a submission; None: there is none.  Raises OSError or ValueError."""
    return read_document(folder, _SUBMITTED, _parse_submission)


def keep_submitted(folder: AttemptFolder, record: SpoolRecord) -> None:
    """Store the record of a submission durably.  Raises OSError."""
    parts = [
        ([(role.value, index) for role, index in part.replicas], part.per_node)
        for part in record.parts
    ]
    value = {**record._asdict(), "parts": parts}
    write_json(f"{folder.path}/{_SUBMITTED}", value, durably=True)


def _parse_submission(document: Any) -> SpoolRecord:
    parts = tuple(
        Placing(tuple((Role(role), int(index)) for role, index in replicas), per_node)
        for replicas, per_node in document["parts"]
    )
    job = document["job"]
    if job and not (job.isascii() and job.isdecimal()):
        raise ValueError(f"job must be a number, got {job!r:.100}")
    shape, kept_from = str(document.get("shape", "")), int(document.get("kept", 0))
    gpu_words = tuple(map(str, document.get("gpu_words", ())))
    return SpoolRecord(float(document["since_s"]), job, parts, shape, kept_from, gpu_words)


def read_end(folder: AttemptFolder) -> EndByCluster | None:
    """Read the stored end of an attempt; None: there is none.  Raises OSError or ValueError."""
    return cluster_end.read_end(folder, _ENDED)


def keep_end(folder: AttemptFolder, end: EndByCluster) -> None:
    """Store the end of an attempt durably.  Raises OSError."""
    cluster_end.keep_end(folder, _ENDED, end)


def read_claimant(folder: AttemptFolder) -> str:
    """Return the number of the job that has the claim; empty: no job, or a damaged claim."""
    number = read_claim(folder, _NUMBER_MAX).partition(b" ")[0].strip()
    return number.decode() if number.isdigit() else ""


def read_nodes(folder: AttemptFolder) -> list[tuple[str, ...]]:
    """Read the nodes of each part from the claim of a job; empty if no job has the claim.

    A node is listed once for each of its replicas, if the claim has their numbers.
    """
    nodes, _, tasks = read_claim(folder).decode(errors="replace").partition("/")
    counts = tasks.split()
    try:
        return [
            _list_nodes(word, counts[number] if number < len(counts) else "")
            for number, word in enumerate(nodes.split()[1:])
        ]
    except ValueError:
        return []


def _list_nodes(nodes: str, tasks: str) -> tuple[str, ...]:
    names = islice(parse.host_names(nodes), _NODES_MAX)
    if not tasks:
        return tuple(names)
    counts = parse.task_counts(tasks)
    pairs = zip(names, counts, strict=False)
    return tuple(islice((name for name, count in pairs for _ in range(count)), _NODES_MAX))


def first_node(folder: AttemptFolder) -> tuple[str, ...]:
    """Return the node of the launcher, from the claim; empty if no job has the claim."""
    return next((part[:1] for part in read_nodes(folder)), ())


def list_lost_nodes(folder: AttemptFolder) -> tuple[str, ...]:
    """List the nodes that made an attempt a loss.  Raises OSError or ValueError.

    Empty for an attempt that no node is to blame for, such as one that was preempted.
    """
    end = read_end(folder)
    if end is not None and not end.stands:
        return end.nodes
    records = AttemptRecords()
    records.read(folder.records)
    if records.ended is None or not records.ended.lost:
        return ()
    return choose_lost_nodes(records.ended, read_nodes(folder))


def choose_lost_nodes(ended: Ended, parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Choose the nodes to avoid after a loss; ``parts`` has the nodes of the attempt, by part.

    If wardens never came up, these are the nodes without a warden.  If no node is known, it is the
    node of the launcher, the first one.
    """
    nodes = tuple(dict.fromkeys(node for names in parts for node in names))
    if ended.nodes:
        return ended.nodes
    silent = tuple(node for node in nodes if node not in ended.reached)
    return silent if ended.reached and silent else nodes[:1]


def spread(
    parts: Sequence[Placing], nodes: Sequence[Sequence[str]]
) -> Iterator[tuple[Role, int, str]]:
    """Yield the role, index and node of each replica: Slurm fills one node after the other.

    ``nodes`` is the result of ``read_nodes``.
    """
    for part, names in zip(parts, nodes, strict=False):
        per_node = part.per_node or -(-len(part.replicas) // max(1, len(names)))
        for position, (role, index) in enumerate(part.replicas):
            if position // per_node < len(names):
                yield role, index, names[position // per_node]
