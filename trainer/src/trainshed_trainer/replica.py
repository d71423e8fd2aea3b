"""One object that describes this replica, so that user code need not read environment variables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from trainshed_trainer import contract
from trainshed_trainer.cluster import ClusterPosition, read_cluster_position
from trainshed_trainer.directories import directories_of


@dataclass(frozen=True)
class ReplicaEnv:
    """The identity of this replica, its peers and its directories, as the environment sets them.

    ``rank`` is None for a replica without a rank (a parameter server, a reducer, an evaluator);
    ``world_size`` is the number of replicas with a rank.  ``peers`` has the ``host:port`` of every
    replica by role, including this one.  ``trial`` is empty outside of tuning.  ``attempt`` starts
    at 1 and grows with every restart of the job.  A directory is None if the job does not set it;
    it may be a URI.
    """

    role: str = contract.PRIMARY
    index: int = 0
    rank: int | None = 0
    world_size: int = 1
    peers: dict[str, list[str]] = field(default_factory=dict)
    job_id: str = ""
    trial: str = ""
    attempt: int = 1
    job_dir: str | None = None
    model_dir: str | None = None
    checkpoint_dir: str | None = None
    tensorboard_dir: str | None = None

    @property
    def is_primary(self) -> bool:
        """Whether the exit of this replica decides the job's result."""
        return self.role == contract.PRIMARY

    @property
    def is_restart(self) -> bool:
        """Whether an earlier attempt of this job may have left a checkpoint."""
        return self.attempt > 1

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str] | None = None, argv: Sequence[str] | None = None
    ) -> ReplicaEnv:
        """Read the environment and the command line; by default, those of this process.

        Outside of a job the result is a single primary.  Raises ValueError, which contains the
        variable's name, for a malformed variable.
        """
        environ = os.environ if environ is None else environ
        numbers = _read_rank_and_size(environ)
        position = read_cluster_position(environ) or _position_by_rank(environ, numbers)
        rank, world_size = numbers or _count_rank_and_size(position)
        return cls(
            role=position.role,
            index=position.index,
            rank=rank,
            world_size=world_size,
            peers=position.peers,
            job_id=environ.get(contract.CLOUD_ML_JOB_ID, ""),
            trial=environ.get(contract.CLOUD_ML_TRIAL_ID) or position.trial,
            attempt=_read_attempt(environ),
            **vars(directories_of(environ, sys.argv if argv is None else argv)),
        )


def _read_rank_and_size(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Read RANK and WORLD_SIZE, or None if neither is set."""
    present = [name for name in (contract.RANK, contract.WORLD_SIZE) if environ.get(name)]
    if not present:
        return None
    rank, size = (_read_integer(environ, name) for name in (contract.RANK, contract.WORLD_SIZE))
    if not 0 <= rank < size:
        raise ValueError(
            f"RANK must be from 0 to {size - 1}, because WORLD_SIZE is {size}; got {rank}"
        )
    return rank, size


def _read_attempt(environ: Mapping[str, str]) -> int:
    """Read the attempt's number; without the variable this is the first attempt."""
    if not environ.get(contract.TRAINSHED_ATTEMPT):
        return 1
    attempt = _read_integer(environ, contract.TRAINSHED_ATTEMPT)
    if attempt < 1:
        raise ValueError(f"{contract.TRAINSHED_ATTEMPT} must be 1 or more, got {attempt}")
    return attempt


def _read_integer(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {text!r}") from None


def _position_by_rank(
    environ: Mapping[str, str], numbers: tuple[int, int] | None
) -> ClusterPosition:
    """Derive the position from PyTorch's variables: rank 0 is the primary, others are workers."""
    if numbers is None:
        return ClusterPosition()
    host, port = environ.get(contract.MASTER_ADDR), environ.get(contract.MASTER_PORT)
    peers = {contract.PRIMARY: [f"{host}:{port}"]} if host and port else {}
    rank = numbers[0]
    role = contract.WORKER if rank else contract.PRIMARY
    return ClusterPosition(role=role, index=max(rank - 1, 0), peers=peers)


def _count_rank_and_size(position: ClusterPosition) -> tuple[int | None, int]:
    """Derive a replica's rank and the world size from the cluster alone."""
    members = [
        (role, index)
        for role in contract.WORLD
        for index in range(len(position.peers.get(role, [])))
    ]
    own = (position.role, position.index)
    rank = members.index(own) if own in members else None
    return (0, 1) if not members and position.role == contract.PRIMARY else (rank, len(members))
