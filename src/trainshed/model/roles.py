"""The roles of replicas in a job, and the dialects of jobs."""

import enum


class Role(enum.Enum):
    """The role of a replica in its training cluster."""

    PRIMARY = "primary"
    WORKER = "worker"
    PARAMETER_SERVER = "parameter_server"
    REDUCER = "reducer"
    EVALUATOR = "evaluator"

    # each role is one object; an enum's own hash is that of its name, and slow
    __hash__ = object.__hash__


class Dialect(enum.Enum):
    """A vocabulary of the wire: AI Platform Training (ml v1) or Vertex AI (aiplatform v1)."""

    ML_V1 = "ml_v1"
    AIPLATFORM_V1 = "aiplatform_v1"


#: The position in workerPoolSpecs that belongs to a role; pool 2 holds either of two roles.
POOL_OF_ROLE = {
    Role.PRIMARY: 0,
    Role.WORKER: 1,
    Role.PARAMETER_SERVER: 2,
    Role.REDUCER: 2,
    Role.EVALUATOR: 3,
}
