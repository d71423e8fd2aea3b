"""The names that a launcher and a training program must agree on, each written down once.

The launcher has its own list, since neither side may import the other; a test compares the two.
"""

from __future__ import annotations

# Who is in the cluster.
CLUSTER_SPEC = "CLUSTER_SPEC"
TF_CONFIG = "TF_CONFIG"

# PyTorch's rendezvous.
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"

# Which job and trial this is.
CLOUD_ML_JOB_ID = "CLOUD_ML_JOB_ID"
CLOUD_ML_TRIAL_ID = "CLOUD_ML_TRIAL_ID"

# Where a trial's metrics go (docs/sources/vertex.md 10.1).
CLOUD_ML_HP_METRIC_FILE = "CLOUD_ML_HP_METRIC_FILE"

# What only Trainshed says to a replica: which attempt of the job and which replica this is, where a
# notice of its end appears, where it may say how far it has come, and where buckets are folders.
TRAINSHED_ATTEMPT = "TRAINSHED_ATTEMPT"
TRAINSHED_JOB = "TRAINSHED_JOB"
TRAINSHED_TASK = "TRAINSHED_TASK"
TRAINSHED_NOTICE_FILE = "TRAINSHED_NOTICE_FILE"
TRAINSHED_PROGRESS_FILE = "TRAINSHED_PROGRESS_FILE"
TRAINSHED_BUCKETS = "TRAINSHED_BUCKETS"

# Where the times of its steps are written; ``hooks``: hooks for its framework note them.
TRAINSHED_STEPS_FILE = "TRAINSHED_STEPS_FILE"
TRAINSHED_STEPS = "TRAINSHED_STEPS"

# The Reduction Server: where the reducers of a job are, what proves that a worker is one of the
# job's, and where the achieved rates are written; the last six are the job's own to choose.
TRAINSHED_REDUCERS = "TRAINSHED_REDUCERS"
TRAINSHED_REDUCTION_TOKEN = "TRAINSHED_REDUCTION_TOKEN"  # noqa: S105  # a name, no secret
TRAINSHED_REDUCTION_TOKEN_FILE = "TRAINSHED_REDUCTION_TOKEN_FILE"  # noqa: S105  # as above
TRAINSHED_REDUCTION_REPORT = "TRAINSHED_REDUCTION_REPORT"
TRAINSHED_REDUCTION_HOST = "TRAINSHED_REDUCTION_HOST"
TRAINSHED_REDUCTION_ROUTE = "TRAINSHED_REDUCTION_ROUTE"
TRAINSHED_REDUCTION_LOCAL = "TRAINSHED_REDUCTION_LOCAL"
TRAINSHED_REDUCTION_HOSTNAME = "TRAINSHED_REDUCTION_HOSTNAME"
TRAINSHED_REDUCTION_MAX_STAGING = "TRAINSHED_REDUCTION_MAX_STAGING"
TRAINSHED_TORCH_BACKEND = "TRAINSHED_TORCH_BACKEND"

# Where results go: variables on Vertex AI, an argument on AI Platform Training.
AIP_MODEL_DIR = "AIP_MODEL_DIR"
AIP_CHECKPOINT_DIR = "AIP_CHECKPOINT_DIR"
AIP_TENSORBOARD_LOG_DIR = "AIP_TENSORBOARD_LOG_DIR"
JOB_DIR_FLAG = "--job-dir"

#: The folder below a job's directory that each variable names.
FOLDER = {
    AIP_MODEL_DIR: "model",
    AIP_CHECKPOINT_DIR: "checkpoints",
    AIP_TENSORBOARD_LOG_DIR: "logs",
}

# The roles of a replica.
PRIMARY = "primary"
WORKER = "worker"
PARAMETER_SERVER = "parameter_server"
REDUCER = "reducer"
EVALUATOR = "evaluator"

#: The roles that take part in collective communication, in the order of their ranks.
WORLD = (PRIMARY, WORKER)

#: What ``task.type`` and the keys of ``cluster`` call each role, in all dialects.
ROLE_OF_TASK = {
    "chief": PRIMARY,
    "master": PRIMARY,
    "worker": WORKER,
    "ps": PARAMETER_SERVER,
    "reducer": REDUCER,
    "evaluator": EVALUATOR,
    "workerpool0": PRIMARY,
    "workerpool1": WORKER,
    "workerpool2": PARAMETER_SERVER,
    "workerpool3": EVALUATOR,
}

#: Worker pool 2 holds reducers instead of parameter servers when its image's URI is like this.
REDUCTION_IMAGE = r"(?:^|/)reductionserver(?:[:@].*)?$"
