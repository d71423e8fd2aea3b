"""The state of the cluster as the API's watches last showed it, for all attempts of an engine."""

from collections.abc import Mapping
from typing import Protocol

from trainshed.engines.kubernetes.attempt_files import SubmissionRecord
from trainshed.engines.kubernetes.objects import AttemptObjects
from trainshed.model.attempt import AttemptKey


class ClusterView(Protocol):
    """The last known objects, and whether they are those of now."""

    @property
    def is_away(self) -> bool:
        """Whether the API does not answer now."""

    @property
    def is_synced(self) -> bool:
        """Whether every list was answered since the start and since the API was away."""

    @property
    def has_kueue(self) -> bool:
        """Whether the API serves Workloads, or may serve them."""

    @property
    def reads_workloads(self) -> bool:
        """Whether the server may read Workloads."""

    @property
    def nodes(self) -> Mapping[str, bool] | None:
        """Whether each node is ready, by name; None: the server may not read nodes."""

    def find(
        self, key: AttemptKey, submitted: SubmissionRecord | None, claimant: str
    ) -> AttemptObjects:
        """Return the objects of an attempt; ``claimant`` is the uid of the pod that began it."""

    def version(self, key: AttemptKey) -> tuple[object, ...]:
        """Return values that differ after each change of an object of the attempt."""
