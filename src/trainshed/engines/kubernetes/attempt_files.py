"""Reads and writes what the server stores in the folder of an attempt on a Kubernetes cluster."""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from trainshed.engines import cluster_end
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.spool import read_claim, read_document
from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.model.codec import decode, encode

_SUBMITTED: Final = "kubernetes.json"
_ENDED: Final = "kubernetes-end.json"
_WITHDRAWN: Final = "kubernetes-withdrawn.json"
_NODES: Final = "kubernetes-nodes.json"
#: A uid of an object has 36 characters.
_UID_LENGTH_MAX: Final = 64


class ReplicaTask(NamedTuple):
    """The name of a replica in the job's log."""

    role: str
    """The name of the replicated Job, such as ``worker``."""
    number: int
    """The index of the replica in its role."""
    name: str
    """The task name, such as ``workerpool1-0``."""


class SubmissionRecord(NamedTuple):
    """The record of a submission, written before the JobSet is created and again with its uid."""

    since_s: float
    """The time of the submission, in seconds since 1970."""
    name: str
    """The name of the JobSet and of its Secret."""
    uid: str = ""
    """The uid of the JobSet; empty: the API has not answered the request to create it."""
    tasks: tuple[ReplicaTask, ...] = ()

    @property
    def task_names(self) -> Mapping[tuple[str, int], str]:
        """The task name of each replica, by the name of its replicated Job and its index."""
        return {(task.role, task.number): task.name for task in self.tasks}


class ReplicaNode(NamedTuple):
    """The node on which a pod runs a replica."""

    role: str
    """The name of the replicated Job, such as ``worker``."""
    number: int
    """The index of the replica in its role."""
    node: str


def read_submission(folder: AttemptFolder) -> SubmissionRecord | None:
    """Read the record of a submission; None: there is none.  Raises OSError or ValueError."""
    return read_document(folder, _SUBMITTED, partial(decode, SubmissionRecord))


def keep_submission(folder: AttemptFolder, submission: SubmissionRecord) -> None:
    """Store the record of a submission durably.  Raises OSError."""
    write_json(f"{folder.path}/{_SUBMITTED}", encode(submission), durably=True)


def read_end(folder: AttemptFolder) -> EndByCluster | None:
    """Read the stored end of an attempt; None: there is none.  Raises OSError or ValueError."""
    return cluster_end.read_end(folder, _ENDED)


def keep_end(folder: AttemptFolder, end: EndByCluster) -> None:
    """Store the end of an attempt durably.  Raises OSError."""
    cluster_end.keep_end(folder, _ENDED, end)


def read_withdrawn(folder: AttemptFolder) -> EndByCluster | None:
    """Read the end for which the server deletes the JobSet; None: it deletes it for no end.

    Raises OSError or ValueError.
    """
    return cluster_end.read_end(folder, _WITHDRAWN)


def keep_withdrawn(folder: AttemptFolder, end: EndByCluster) -> None:
    """Store the end for which the server will delete the JobSet, durably.  Raises OSError."""
    cluster_end.keep_end(folder, _WITHDRAWN, end)


def read_nodes(folder: AttemptFolder) -> tuple[ReplicaNode, ...]:
    """Read the last known nodes of the replicas; none if they were not stored.

    Raises OSError or ValueError.
    """
    return read_document(folder, _NODES, partial(decode, tuple[ReplicaNode, ...])) or ()


def keep_nodes(folder: AttemptFolder, nodes: tuple[ReplicaNode, ...]) -> None:
    """Store the nodes of the replicas: the cluster forgets deleted pods.  Raises OSError."""
    write_json(f"{folder.path}/{_NODES}", encode(nodes))


def read_claimant(folder: AttemptFolder) -> str:
    """Return the uid of the pod that has the claim; empty: the server or no pod has it."""
    text = read_claim(folder, _UID_LENGTH_MAX).decode(errors="replace").strip()
    return text if "-" in text else ""
