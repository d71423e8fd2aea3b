"""The network of a job's replicas if each job has its own network."""

import enum
from typing import Final

from trainshed.model.labels import WISH

#: The label by which a job chooses its ``NetworkLayout``.
NETWORK_LABEL: Final = f"{WISH}network"

#: The port of TF_CONFIG and CLUSTER_SPEC.
CLUSTER_PORT: Final = 2222

#: The port of MASTER_ADDR, as in public code for Vertex AI (docs/sources/vertex.md 10), and the
#: port that Trainshed chose for JAX's coordinator.
RENDEZVOUS_PORT: Final = 3333


class NetworkLayout(enum.Enum):
    """How the replicas of a job share its network."""

    JOB = "job"
    """One network namespace for all replicas; each replica has its own address."""
    REPLICA = "replica"
    """One network namespace for each replica, as on separate machines."""


#: The values of the label, as a refusal lists them.
LAYOUTS: Final = tuple(layout.value for layout in NetworkLayout)
