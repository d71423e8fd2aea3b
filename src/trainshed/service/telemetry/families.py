"""All families of the default page; docs/reference/telemetry.md lists them for users.

The families of one job are in ``job_families``: they are on a page of their own, because their
number grows with the number of jobs.
"""

from typing import Final

from trainshed.service.telemetry.family import Family, FamilyKind

_C, _G = FamilyKind.COUNTER, FamilyKind.GAUGE
_H, _S = FamilyKind.HISTOGRAM, FamilyKind.SUMMARY

_DAY_S: Final = 86_400.0
#: From an answer at once to the default limit of running times.
_LONG_S: Final = (
    1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14_400.0, 43_200.0, _DAY_S, 3 * _DAY_S, 7 * _DAY_S,
)  # fmt: skip
_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHORT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_POWERS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


def _family(
    kind: FamilyKind, name: str, text: str, *labels: str, buckets: tuple[float, ...] = ()
) -> Family:
    return Family(name=f"trainshed_{name}", kind=kind, text=text, labels=labels, buckets=buckets)


BUILD_INFO: Final = _family(
    _G, "build_info", "1; the release of this server", "version", "python", "database"
)
SERVER_LEADER: Final = _family(
    _G, "server_leader", "1 on the server that schedules and reports the whole installation"
)
SERVERS: Final = _family(_G, "servers", "Servers that use the database now")
STORE_UP: Final = _family(_G, "store_up", "1 while the database answers")
CLOCK_SKEW: Final = _family(
    _G, "store_clock_skew_seconds", "Time by which the wall clock is ahead of the store's time"
)
SCRAPE: Final = _family(_G, "scrape_seconds", "Time that the last reading of this page took")

HTTP_REQUESTS: Final = _family(
    _C, "http_requests", "Answered requests by API and class of status", "api", "code"
)
HTTP_SECONDS: Final = _family(
    _H, "http_request_duration_seconds", "Time to the end of an answer, without streams", "api",
    buckets=_REQUEST_S,
)  # fmt: skip
AUTH_REFUSALS: Final = _family(
    _C, "auth_refusals", "Calls refused for their credentials or role", "reason"
)

JOBS_SUBMITTED: Final = _family(
    _C, "jobs_submitted", "Accepted jobs, with those of trials", "project", "dialect"
)
JOBS_REFUSED: Final = _family(
    _C, "jobs_refused", "Refused jobs by the first rule that they broke", "dialect", "rule"
)
JOBS: Final = _family(_G, "jobs", "Jobs that have not ended, by state", "project", "state")
JOBS_FINISHED: Final = _family(
    _C, "jobs_finished", "Jobs that ended, by state and cause", "project", "state", "cause"
)
JOB_RESTARTS: Final = _family(_C, "job_restarts", "Restarts of jobs by cause", "cause")
NOTICES: Final = _family(
    _C, "notices", "Replicas with a notice, by whether they ended in time; 16 at most an attempt",
    "honoured",
)  # fmt: skip
QUEUE_WAIT: Final = _family(
    _H, "job_queue_wait_seconds", "Time from the submission, or the return to the queue, to nodes",
    buckets=_LONG_S,
)  # fmt: skip
JOB_START: Final = _family(
    _H, "job_start_seconds", "Time from the assignment of nodes to RUNNING", buckets=_LONG_S
)
JOB_RUN: Final = _family(
    _H, "job_run_seconds", "Running time of ended jobs, over all attempts", buckets=_LONG_S
)
QUEUE_JOBS: Final = _family(_G, "queue_jobs", "Waiting jobs by reason", "reason")
QUEUE_OLDEST: Final = _family(
    _G, "queue_oldest_wait_seconds", "Waiting time of the oldest job in the queue"
)
SCHEDULING_PASS: Final = _family(
    _H, "scheduling_pass_seconds", "Time that one pass over the queue took", buckets=_SHORT_S
)
GANG_PLACED: Final = _family(
    _H, "gang_placed_replicas", "Replicas of an attempt that got its nodes", buckets=_POWERS
)

REPLICAS_HUNG: Final = _family(
    _G, "replicas_hung", "Replicas of this server's jobs that make no progress"
)
UNATTENDED: Final = _family(
    _G, "attempts_unattended", "Attempts with nodes of which no engine knows whether they run"
)

ENGINE_COMMANDS: Final = _family(
    _C, "engine_commands", "Commands that an engine has run, by result", "engine", "command",
    "result",
)  # fmt: skip
ENGINE_SECONDS: Final = _family(
    _H, "engine_command_seconds", "Time that an engine took for a launch or a stop of an attempt",
    "command", buckets=_REQUEST_S,
)  # fmt: skip
ENGINE_UP: Final = _family(_G, "engine_up", "1 while an engine is well", "engine", "reason")
ENGINE_ENQUEUED: Final = _family(
    _G, "engine_enqueued", "Jobs that wait in an engine's own queue", "engine"
)
ENGINE_QUEUE: Final = _family(
    _S, "engine_queue_seconds",
    "Time from the hand-over to an engine's queue until the start of the attempt", "engine",
)  # fmt: skip
ENGINE_ANSWER_AGE: Final = _family(
    _G, "engine_answer_age_seconds", "Time since the cluster of an engine last answered", "engine"
)

NODES: Final = _family(_G, "nodes", "Nodes by state", "state")
NODE_REPLICAS: Final = _family(_G, "node_replicas", "Replicas that hold a place", "node", "state")
NODE_SEEN: Final = _family(
    _G, "node_seen_timestamp_seconds", "When an engine last reported the node", "node"
)
NODE_GPUS: Final = _family(_G, "node_gpus", "GPUs by type and state", "node", "type", "state")

GPU_INFO: Final = _family(
    _G, "gpu_info", "1 for each GPU of the server's machine", "node", "gpu", "uuid", "model",
    "driver",
)  # fmt: skip
GPU_JOB_INFO: Final = _family(
    _G, "gpu_job_info", "1 while a job holds the GPU", "node", "gpu", "project", "job", "task",
    "attempt",
)  # fmt: skip
GPU_UTILIZATION: Final = _family(
    _G, "gpu_utilization_ratio",
    "Share of the last sampling period in which at least one kernel ran", "node", "gpu",
)  # fmt: skip
GPU_MEMORY_USED: Final = _family(_G, "gpu_memory_used_bytes", "Memory in use", "node", "gpu")
GPU_MEMORY_TOTAL: Final = _family(_G, "gpu_memory_total_bytes", "Total memory", "node", "gpu")
GPU_POWER: Final = _family(_G, "gpu_power_watts", "Power drawn", "node", "gpu")
GPU_TEMPERATURE: Final = _family(_G, "gpu_temperature_celsius", "Temperature", "node", "gpu")
GPU_THROTTLED: Final = _family(
    _G, "gpu_throttled", "1 while the clocks of the GPU are throttled", "node", "gpu"
)
GPU_ENERGY: Final = _family(
    _C, "gpu_energy_joules", "Energy since the driver was loaded", "node", "gpu"
)
GPU_IDLE: Final = _family(
    _G, "gpu_idle_seconds", "Time for which a job has held the GPU without using it", "node", "gpu"
)
GPU_ECC: Final = _family(
    _C, "gpu_ecc_errors", "Uncorrectable errors of its memory since the driver was loaded",
    "node", "gpu",
)  # fmt: skip
GPU_XID: Final = _family(
    _C, "gpu_xid_errors", "Xids since the server started", "node", "gpu", "xid"
)
GPU_HELD: Final = _family(
    _C, "gpu_held_seconds", "GPU-seconds that jobs held since the server started", "node",
    "project",
)  # fmt: skip
GPU_BUSY: Final = _family(
    _C, "gpu_busy_seconds", "Of the held GPU-seconds, those with a utilization above 0", "node",
    "project",
)  # fmt: skip

STUDIES: Final = _family(_G, "studies", "Studies that have not ended, by state", "state")
TRIALS: Final = _family(
    _G, "trials", "Trials of these studies that have not ended, by state", "state"
)
TRIALS_FINISHED: Final = _family(
    _C, "trials_finished", "Trials that ended, by state, and whether a rule stopped them early",
    "state", "stopped_early",
)  # fmt: skip
SUGGEST_SECONDS: Final = _family(
    _H, "suggest_seconds", "Time of a decision of a study that began trials", buckets=_SHORT_S
)

STORE_COMMIT: Final = _family(
    _H, "store_commit_seconds", "Time that a commit of the database took", buckets=_SHORT_S
)
STORE_WRITES: Final = _family(
    _H, "store_commit_writes", "Writes that one commit stored", buckets=_POWERS
)
STORE_ERRORS: Final = _family(_C, "store_errors", "Writes that the database did not store", "kind")
DATA_FREE: Final = _family(_G, "data_free_bytes", "Free space of a disk", "what")
DATA_SIZE: Final = _family(_G, "data_size_bytes", "Size of a disk", "what")
OTEL_DROPPED: Final = _family(_C, "otel_dropped", "Spans that the collector of traces did not get")
LOG_PRUNED: Final = _family(
    _C, "log_pruned_bytes", "Lines of jobs that the server removed for their age or size"
)
SIGN_INS: Final = _family(
    _C, "signins", "Browsers that signed in, or were refused, by result", "result"
)
CONSOLE_STREAMS: Final = _family(
    _G, "console_streams", "Open pages to which the server sends changes"
)
LOG_STREAMS: Final = _family(_G, "log_streams", "Logs that callers stream now")

PROCESS_CPU: Final = Family(
    name="process_cpu_seconds", kind=_C, text="User and system CPU time of the server"
)
PROCESS_RESIDENT: Final = Family(
    name="process_resident_memory_bytes", kind=_G, text="Resident memory of the server"
)
PROCESS_VIRTUAL: Final = Family(
    name="process_virtual_memory_bytes", kind=_G, text="Virtual memory of the server"
)
PROCESS_START: Final = Family(
    name="process_start_time_seconds", kind=_G, text="When the server started"
)
PROCESS_OPEN: Final = Family(
    name="process_open_fds", kind=_G, text="Open file descriptors of the server"
)
PROCESS_OPEN_MAX: Final = Family(
    name="process_max_fds", kind=_G, text="Limit of open file descriptors"
)

FAMILIES: Final = tuple(value for value in globals().values() if isinstance(value, Family))
