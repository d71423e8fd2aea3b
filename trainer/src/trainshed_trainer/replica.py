"""One object that says who this replica is, so that user code reads properties, not variables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from trainshed_trainer import contract
from trainshed_trainer.cluster import Place, place_of
from trainshed_trainer.directories import directories_of


@dataclass(frozen=True)
class ReplicaEnv:
    """What the environment says about this replica.

    ``rank`` is None for a replica that takes no part in collective communication (a parameter
    server, a reducer, an evaluator); ``world_size`` counts those that do.  ``peers`` holds the
    ``host:port`` of every replica by role, this one included.  ``trial`` is empty outside tuning.
    ``attempt`` counts from 1 and grows with every restart of the job.  A directory is None where
    nobody has named one; it may be a URI.
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
        """Whether this replica's exit decides the job."""
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

        Outside a job the answer is a single primary.  Raises ValueError, with the variable's name
        in it, when a variable is there and makes no sense.
        """
        environ = os.environ if environ is None else environ
        described = place_of(environ)
        numbers = _rank_and_size(environ)
        place = described or _place_by_rank(environ, numbers)
        rank, world_size = numbers or _seat(place)
        return cls(
            role=place.role,
            index=place.index,
            rank=rank,
            world_size=world_size,
            peers=place.peers,
            job_id=environ.get(contract.CLOUD_ML_JOB_ID, ""),
            trial=environ.get(contract.CLOUD_ML_TRIAL_ID) or place.trial,
            attempt=_attempt(environ),
            **vars(directories_of(environ, sys.argv if argv is None else argv)),
        )


def _rank_and_size(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Read RANK and WORLD_SIZE, or None where neither is set."""
    present = [name for name in (contract.RANK, contract.WORLD_SIZE) if environ.get(name)]
    if not present:
        return None
    rank, size = (_number(environ, name) for name in (contract.RANK, contract.WORLD_SIZE))
    if not 0 <= rank < size:
        raise ValueError(f"RANK is {rank} and should be from 0 to {size - 1}: WORLD_SIZE is {size}")
    return rank, size


def _attempt(environ: Mapping[str, str]) -> int:
    """Read the attempt's number; a launcher that says nothing has started the first one."""
    if not environ.get(contract.TRAINSHED_ATTEMPT):
        return 1
    attempt = _number(environ, contract.TRAINSHED_ATTEMPT)
    if attempt < 1:
        raise ValueError(f"{contract.TRAINSHED_ATTEMPT} should be 1 or more, not {attempt}")
    return attempt


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} should be a whole number, not {text!r}") from None


def _place_by_rank(environ: Mapping[str, str], numbers: tuple[int, int] | None) -> Place:
    """Take the place from PyTorch's variables alone: rank 0 is the primary, others are workers."""
    if numbers is None:
        return Place()
    host, port = environ.get(contract.MASTER_ADDR), environ.get(contract.MASTER_PORT)
    peers = {contract.PRIMARY: [f"{host}:{port}"]} if host and port else {}
    rank = numbers[0]
    role = contract.WORKER if rank else contract.PRIMARY
    return Place(role=role, index=max(rank - 1, 0), peers=peers)


def _seat(place: Place) -> tuple[int | None, int]:
    """Count a replica's rank and the size of its world from the cluster alone."""
    members = [(role, i) for role in contract.WORLD for i in range(len(place.peers.get(role, [])))]
    own = (place.role, place.index)
    rank = members.index(own) if own in members else None
    return (0, 1) if not members and place.role == contract.PRIMARY else (rank, len(members))
