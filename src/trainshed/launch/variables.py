"""The names of the environment variables that a replica may get, each defined once.

A variable that one program sets for itself must not reach another: a launcher started by torchrun
has its own RANK, and a trainer with this RANK would wait for peers that do not exist.  So every
name here is removed from the launcher's environment before a replica's own variables are set.
"""

from typing import Final

from trainshed.model import trainer_contract

# The members of the cluster.
TF_CONFIG: Final = "TF_CONFIG"
CLUSTER_SPEC: Final = "CLUSTER_SPEC"

# PyTorch's ``env://`` rendezvous.
MASTER_ADDR: Final = "MASTER_ADDR"
MASTER_PORT: Final = "MASTER_PORT"
RANK: Final = "RANK"
WORLD_SIZE: Final = "WORLD_SIZE"

# JAX's coordinator.
JAX_COORDINATOR_ADDRESS: Final = "JAX_COORDINATOR_ADDRESS"
JAX_NUM_PROCESSES: Final = "JAX_NUM_PROCESSES"
JAX_PROCESS_ID: Final = "JAX_PROCESS_ID"

# The job (docs/sources/vertex.md 10, which does not have CLOUD_ML_JOB).
CLOUD_ML_JOB: Final = "CLOUD_ML_JOB"
CLOUD_ML_JOB_ID: Final = "CLOUD_ML_JOB_ID"
CLOUD_ML_PROJECT_ID: Final = "CLOUD_ML_PROJECT_ID"
CLOUD_ML_REGION: Final = "CLOUD_ML_REGION"

# The trial of a tuning job (docs/sources/vertex.md 10).
CLOUD_ML_TRIAL_ID: Final = "CLOUD_ML_TRIAL_ID"
CLOUD_ML_HP_METRIC_FILE: Final = "CLOUD_ML_HP_METRIC_FILE"
CLOUD_ML_HP_METRIC_TAG: Final = "CLOUD_ML_HP_METRIC_TAG"

# The folders for results (docs/sources/vertex.md 10).
AIP_MODEL_DIR: Final = "AIP_MODEL_DIR"
AIP_CHECKPOINT_DIR: Final = "AIP_CHECKPOINT_DIR"
AIP_TENSORBOARD_LOG_DIR: Final = "AIP_TENSORBOARD_LOG_DIR"

# The span that continues in the program, by OpenTelemetry's environment-variable carrier.
TRACEPARENT: Final = "TRACEPARENT"

_OURS: Final = tuple(value for name, value in vars().items() if name.isupper())

#: A user's variable of such a name never replaces one that the service has set.
RESERVED_PREFIX: Final = "AIP_"

#: Set by other launchers and services, never by this one; they would mislead a replica.
FOREIGN: Final = (
    # read by the Vertex SDK inside a training container
    "AIP_DATA_FORMAT",
    "AIP_TRAINING_DATA_URI",
    "AIP_VALIDATION_DATA_URI",
    "AIP_TEST_DATA_URI",
    "AIP_TENSORBOARD_RESOURCE_NAME",
    "AIP_TENSORBOARD_API_URI",
    "AIP_TF_PROFILER_PORT",
    "AIP_HTTP_HANDLER_PORT",
    "AIP_EXPERIMENT_NAME",
    "AIP_EXPERIMENT_RUN_NAME",
    # set by torchrun for its own processes
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    # it belongs to the span of the launcher
    "TRACESTATE",
    # read by jax.distributed.initialize
    "JAX_COORDINATOR_PORT",
    "JAX_COORDINATOR_BIND_ADDRESS",
    "JAX_LOCAL_DEVICE_IDS",
    "JAX_PARTITION_INDEX",
    "JAX_SLICE_INDEX",
)

#: Names that must not leak from the launcher's own environment into a replica.
UNSET: Final = (
    *_OURS,
    *(value for name, value in vars(trainer_contract).items() if name.isupper()),
    *FOREIGN,
)
