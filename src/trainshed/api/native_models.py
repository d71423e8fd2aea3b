"""What the native routes answer, as their OpenAPI document describes it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["viewer", "submitter", "admin"]


class Strict(BaseModel):
    """A request's document: a field that means nothing is an error."""

    model_config = ConfigDict(extra="forbid")


class Change(BaseModel):
    """One change of the request that would admit the job at once."""

    field: str
    role: str
    asked: str
    accepted: str
    text: str


class Waiting(BaseModel):
    """Why a job waits; ``reason`` is from a closed set, the next job's position is 1.

    ``since`` is there where the queue of an engine gave the reason.
    """

    reason: str
    message: str
    blockers: list[str] = []
    queuePosition: int | None = None
    since: str | None = None
    change: Change | None = None


class Replica(BaseModel):
    """One replica of the newest attempt."""

    taskName: str
    role: str
    index: int
    node: str
    state: str
    exitCode: int | None = None
    signal: int | None = None


class Restarts(BaseModel):
    """How often a job was started again, by cause."""

    maintenance: int
    infra: int
    user: int


class Job(BaseModel):
    """A job in short."""

    name: str
    displayName: str
    uid: str
    state: str
    attempt: int
    restarts: Restarts | None = None
    creator: str
    createTime: str | None = None
    startTime: str | None = None
    endTime: str | None = None
    error: str | None = None
    replicas: list[Replica]
    waiting: Waiting | None = None
    outcome: "PredictionScore | None" = None
    """How its newest attempt compares with what was predicted of it, where something was."""
    ending: "Ending | None" = None
    """When a study that is not over will be, from three finished trials on."""


class Ending(BaseModel):
    """When a study will be over, and what it will have cost; 80 % intervals: low, point, high."""

    leftSeconds: list[float]
    """Seconds until its last trial is over."""
    cost: list[float] | None = None
    """Of all its trials by the catalog's prices, where one is known."""
    currency: str | None = None


class PredictionScore(BaseModel):
    """What was predicted of all steps of a job, and what they took."""

    job: str
    accelerators: int
    hosts: int
    steps: int
    predictedSeconds: list[float]
    """The 80 % interval's low end, the point, and the high end."""
    tookSeconds: float
    inside: bool
    goodput: float | None = None
    """Time in steps, over the time since the replica began."""
    reach: str = Field(alias="class")
    """From what was known to what was asked."""
    cost: float | None = None
    predictedCost: float | None = None
    currency: str | None = None
    sentence: str


class Outcomes(BaseModel):
    """Predictions that were made of a project's jobs, the newest first."""

    outcomes: list[PredictionScore]
    nextPageToken: str | None = None
    """Leads to older ones, where there are more."""


class Calibration(BaseModel):
    """What jobs have taught of one trainer on one kind of machine, without its document."""

    key: str
    jobs: int
    updateTime: str
    model: str
    machineType: str
    accelerator: str


class CalibrationFile(Calibration):
    """What jobs have taught of one trainer on one kind of machine."""

    document: str
    """The file that ``trainshed plan --calibration`` takes."""


class Calibrations(BaseModel):
    """Those of a project, what was learned last first."""

    calibrations: list[Calibration]


class Explanation(BaseModel):
    """Why a job is where it is; ``reduction`` is what its reducers came to, or are to come to."""

    name: str
    state: str
    message: str
    waiting: Waiting | None = None
    warning: str | None = None
    """That it runs, or ran, on the CPU though it asks for GPUs."""
    reduction: str | None = None
    steps: str | None = None
    """What the steps of its newest attempt came to, of a job that reported them."""
    outcome: str | None = None
    """How that compares with what was predicted, where something was."""


class Event(BaseModel):
    """One sentence of a job's story."""

    seq: int
    time: str
    attempt: int
    kind: str
    message: str
    data: dict[str, Any]


class Events(BaseModel):
    """A job's story, oldest first."""

    events: list[Event]


class Trial(BaseModel):
    """A trial of a tuning job; ``step`` and ``metrics`` are those of its latest measurement."""

    number: int
    state: Literal["REQUESTED", "ACTIVE", "STOPPING", "SUCCEEDED", "INFEASIBLE"]
    jobState: str
    stoppedEarly: bool
    step: int | None = None
    metrics: dict[str, float]
    infeasibleReason: str | None = None


class Sent(BaseModel):
    """One thing that was sent: a plan, a script, a command line."""

    name: str
    text: str


class Manifest(BaseModel):
    """What an engine was sent for an attempt of a job."""

    job: str
    attempt: int
    engine: str
    parts: list[Sent]


class Trials(BaseModel):
    """The trials of a tuning job by number; any other job has none."""

    trials: list[Trial]


class GpuReading(BaseModel):
    """What a GPU reported of itself at one moment; what its driver does not measure is absent.

    ``use`` is the share of the last instants in which any kernel ran, from 0 to 1: not how busy it
    was.  ``useMinute`` is its mean over a minute, ``eccErrors`` the uncorrectable ones since the
    driver was loaded, ``throttled`` why the clocks are lower than they could be.
    """

    at: str
    usedBytes: int | None = None
    use: float | None = None
    useMinute: float | None = None
    powerWatts: float | None = None
    temperatureCelsius: int | None = None
    eccErrors: int | None = None
    throttled: list[str] | None = None


class NodeGpu(BaseModel):
    """A GPU of a node, or an instance of one that is divided (MIG).

    HELD: a job has it; FOREIGN: ``who`` has it without asking the server; FAULTY: nothing new is
    placed on it, ``problem`` says why and what helps.  ``reading`` and HELD are known of the
    answering server's own machine, ``job`` to those who may see it.
    """

    index: int
    uuid: str
    name: str
    type: str
    memoryBytes: int | None = None
    pciBusId: str | None = None
    state: Literal["FREE", "HELD", "FOREIGN", "FAULTY"]
    who: str | None = None
    job: str | None = None
    problem: str | None = None
    reading: GpuReading | None = None


class Node(BaseModel):
    """One machine of the fleet; ``notice`` is what replicas get before its maintenance."""

    name: str
    engine: str
    state: Literal["READY", "DRAINED", "MAINTENANCE"]
    notice: str | None = None
    policy: str
    region: str
    vcpus: int
    memoryGigabytes: float
    gpus: dict[str, int]
    slots: int
    replicas: int
    isolation: str = ""
    leftovers: str = ""
    network: str = ""
    seen: str
    devices: list[NodeGpu] | None = None


class EngineHealth(BaseModel):
    """How an engine of the server does; ``health`` is empty while it is well."""

    name: str
    health: str
    message: str
    since: str


class Nodes(BaseModel):
    """The fleet, and how the engines do whose nodes they are."""

    nodes: list[Node]
    engines: list[EngineHealth] = Field(default_factory=list)


class NodeOrder(Strict):
    """How a node is taken out of service: ``notice`` is a duration such as ``120s``."""

    notice: str | None = Field(default=None, pattern=r"^[0-9]{1,5}(\.[0-9]{1,9})?s$")


class NodeOrdered(BaseModel):
    """What became of an order: the node, the jobs that are on it, and what happens to them."""

    node: Node
    jobs: list[str]
    message: str


class Fenced(BaseModel):
    """An attempt that counts as lost because an administrator says that nothing of it lives."""

    job: str
    attempt: int
    engine: str
    message: str


class Adopter(Strict):
    """The project that gets a bucket."""

    project: str


class Adopted(BaseModel):
    """A bucket, and the project that it belongs to now."""

    name: str
    project: str


class NewToken(Strict):
    """What a token is made of."""

    name: str | None = None
    project: str = "*"
    role: Role = "submitter"
    expires: str | None = None


class Life(Strict):
    """How long a token is good for: a duration such as ``1h``."""

    expires: str | None = None


class NewBucketToken(Life):
    """Which bucket a token is for, there or not yet; ``*``: every one that the caller may use."""

    bucket: str
    readOnly: bool = False


class NewKey(Strict):
    """A service account's public key."""

    email: str
    publicKey: str
    keyId: str | None = None
    project: str = "*"
    role: Role = "submitter"


class Token(BaseModel):
    """A token without its text."""

    id: str
    name: str
    project: str
    role: Role
    createTime: str
    expireTime: str | None = None


class MadeToken(Token):
    """A new token; no later answer holds its text."""

    token: str


class ListedToken(Token):
    """One that is revoked opens nothing any more."""

    lastUseTime: str | None = None
    revoked: bool


class Tokens(BaseModel):
    """All tokens, oldest first."""

    tokens: list[ListedToken]


class BucketToken(BaseModel):
    """A token for buckets; it ends with the token that it was made with, or before."""

    id: str
    project: str
    bucket: str
    readOnly: bool
    expireTime: str


class MadeBucketToken(BucketToken):
    """A new one; no later answer holds its text."""

    token: str


class AuditEntry(BaseModel):
    """A change or a refusal; ``credential`` is the id of a token or key, empty for nobody known."""

    time: str
    caller: str
    credential: str
    address: str
    method: str
    resource: str
    project: str
    status: str


class AuditLog(BaseModel):
    """The newest entries, the oldest of them first."""

    entries: list[AuditEntry]


class Key(BaseModel):
    """A registered key of a service account."""

    id: str
    email: str
    project: str
    role: Role
    createTime: str


class Keys(BaseModel):
    """All registered keys."""

    keys: list[Key]


class Line(BaseModel):
    """One line of a log."""

    time: str
    task: str
    severity: str
    message: str
    trial: str | None = None


class Nothing(Strict):
    """It was done, and there is nothing to tell."""


class Status(BaseModel):
    """google.rpc.Status, as every route answers errors."""

    error: dict[str, Any]
