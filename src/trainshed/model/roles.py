"""The roles of replicas in a job, and the dialects of jobs."""

import enum


class Role(enum.Enum):
    """The role of a replica in its training cluster."""

    PRIMARY = "primary"
    WORKER = "worker"
    PARAMETER_SERVER = "parameter_server"
    REDUCER = "reducer"
    EVALUATOR = "evaluator"

    # each role is one object; an enum's own hash is computed from its name, which is slow
    __hash__ = object.__hash__


class Dialect(enum.Enum):
    """One of Google's two job APIs: AI Platform Training (ml v1) or Vertex AI (aiplatform v1)."""

    ML_V1 = "ml_v1"
    AIPLATFORM_V1 = "aiplatform_v1"


#: The position of each role in workerPoolSpecs; pool 2 has one of two roles.
POOL_OF_ROLE = {
    Role.PRIMARY: 0,
    Role.WORKER: 1,
    Role.PARAMETER_SERVER: 2,
    Role.REDUCER: 2,
    Role.EVALUATOR: 3,
}
