"""The names that the launcher and a training program share, each defined once.

The launcher has its own list because neither side may import the other; a test compares the two.
"""

from __future__ import annotations

# The replicas of the cluster.
CLUSTER_SPEC = "CLUSTER_SPEC"
TF_CONFIG = "TF_CONFIG"

# PyTorch's rendezvous.
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"

# The identity of the job and of the trial.
CLOUD_ML_JOB_ID = "CLOUD_ML_JOB_ID"
CLOUD_ML_TRIAL_ID = "CLOUD_ML_TRIAL_ID"

# The file of a trial's metrics (docs/sources/vertex.md 10.1).
CLOUD_ML_HP_METRIC_FILE = "CLOUD_ML_HP_METRIC_FILE"

# Variables of Trainshed: the attempt of the job, the replica, the files for a notice and for
# progress, and the folder that contains the buckets.
TRAINSHED_ATTEMPT = "TRAINSHED_ATTEMPT"
TRAINSHED_JOB = "TRAINSHED_JOB"
TRAINSHED_TASK = "TRAINSHED_TASK"
TRAINSHED_NOTICE_FILE = "TRAINSHED_NOTICE_FILE"
TRAINSHED_PROGRESS_FILE = "TRAINSHED_PROGRESS_FILE"
TRAINSHED_BUCKETS = "TRAINSHED_BUCKETS"

# The file for step times, and the switches of the hooks that measure them (see ``hooks``).
TRAINSHED_STEPS_FILE = "TRAINSHED_STEPS_FILE"
TRAINSHED_STEPS = "TRAINSHED_STEPS"

# The Reduction Server: the addresses of a job's reducers, the token by which a worker proves that
# it belongs to the job, and the file for the achieved rates.  Users may set the last six.
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

# The directories for results: variables on Vertex AI, an argument on AI Platform Training.
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

#: The roles of the replicas that have a rank, in the order of the ranks.
WORLD = (PRIMARY, WORKER)

#: The role for each value of ``task.type`` and each key of ``cluster``, in all dialects.
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

#: Worker pool 2 has reducers instead of parameter servers if its image's URI matches this pattern.
REDUCTION_IMAGE = r"(?:^|/)reductionserver(?:[:@].*)?$"
