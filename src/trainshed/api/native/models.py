"""The request documents of the native routes, and some response documents."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trainshed.model.study import Goal
from trainshed.model.study_start import GIVEN_RESULTS_MAX, GIVEN_TEXT_MAX
from trainshed.service.auth.tokens import RoleName


class Strict(BaseModel):
    """A request's document; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class NodeOrder(Strict):
    """The options of taking a node out of service: ``notice`` is a duration such as ``120s``."""

    notice: str | None = Field(default=None, pattern=r"^[0-9]{1,5}(\.[0-9]{1,9})?s$")


#: A value as a file has it.
RawWord = Annotated[str, Field(max_length=GIVEN_TEXT_MAX)]
RawNumber = bool | int | float | RawWord
RawValues = Annotated[dict[RawWord, RawNumber], Field(max_length=1000)]


class UnnamedMetric(Strict):
    """A value of an objective whose source names no metric; without a goal it is unknown."""

    value: float
    goal: Goal | None = None


class GivenResult(Strict):
    """A result from elsewhere; ``name`` says where it is from.

    ``cells`` are values of which the study's names decide what they are.  ``unnamed`` are values of
    the objectives in their order.  ``fault`` says why the source itself has no result here.
    ``source`` is one of ``sources``, and may be left out if there is only one.
    """

    name: RawWord
    parameters: RawValues = {}
    metrics: RawValues = {}
    cells: RawValues = {}
    unnamed: list[UnnamedMetric] = Field(default=[], max_length=100)
    fault: RawWord = ""
    source: RawWord = ""


class GivenPoint(Strict):
    """A point to try before the search; ``name`` is in messages about it.

    ``source`` is its place in a file.
    """

    name: RawWord
    parameters: RawValues
    source: RawWord = ""


class GivenStart(Strict):
    """What a study has before its first trial: known results, and points to try first.

    ``sources`` are the names of the sources of ``results``.  ``studies`` are ids or numbers of
    tuning jobs of the project whose results are used, too.
    """

    results: list[GivenResult] = Field(default=[], max_length=GIVEN_RESULTS_MAX)
    sources: list[RawWord] = Field(default=[], max_length=100)
    studies: list[RawWord] = Field(default=[], max_length=100)
    points: list[GivenPoint] = Field(default=[], max_length=1000)


class DryRun(Strict):
    """A job to check.  ``location`` is the region of a Vertex job; ml v1 has none."""

    collection: Literal["jobs", "customJobs", "hyperparameterTuningJobs"]
    location: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$")
    job: dict[str, Any]
    start: GivenStart = GivenStart()


class NewStudy(Strict):
    """A tuning job to create, with what it has before its first trial.

    ``requestId`` names this submission, as in ``NewJobText``.
    """

    collection: Literal["jobs", "hyperparameterTuningJobs"]
    location: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$")
    job: dict[str, Any]
    start: GivenStart = GivenStart()
    requestId: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")


class JobNames(Strict):
    """Jobs by resource name, as lists have them: ``projects/P/jobs/J``."""

    names: list[Annotated[str, Field(max_length=1000)]] = Field(min_length=1, max_length=500)


class LabelChanges(Strict):
    """Labels to set by key; a value of null removes the label."""

    labels: dict[str, str | None] = Field(min_length=1, max_length=128)


class JobText(Strict):
    """The text of one job, YAML or JSON of either API.

    ``location`` is the region of a Vertex job; it is ignored for AI Platform, whose jobs name it.
    """

    text: str
    location: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$")


class NewJobText(JobText):
    """The text of a job to submit.

    ``requestId`` names this submission, for a call that is sent again after a lost response: for
    ten minutes, a call with the same caller, text, location and id returns the job of the first.
    """

    requestId: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")


class Adopter(Strict):
    """The project that gets a bucket."""

    project: str


class NewToken(Strict):
    """A token to create."""

    name: str | None = None
    project: str = "*"
    role: RoleName = "submitter"
    expires: str | None = None


class Life(Strict):
    """The lifetime of a token: a duration such as ``1h``."""

    expires: str | None = None


class NewBucketToken(Life):
    """A token for one bucket, existing or not; ``*``: for every bucket that the caller may use."""

    bucket: str
    readOnly: bool = False


class NewKey(Strict):
    """A service account's public key."""

    email: str
    publicKey: str
    keyId: str | None = None
    project: str = "*"
    role: RoleName = "submitter"


GrantedRole = Literal["VIEWER", "SUBMITTER", "ADMIN"]


class NewSignIn(Strict):
    """What a browser signs in with: a token of this server, or a code of ``trainshed console``."""

    token: str | None = Field(default=None, max_length=4096)
    code: str | None = Field(default=None, max_length=256)


class SignedInCaller(BaseModel):
    """The caller, and for a signed-in browser the header that its calls need."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """The name of the token; ``anonymous`` for a caller without one."""
    role: GrantedRole
    project: str
    """The id of the caller's project; ``*`` for all projects."""
    anonymous: bool
    """Whether the server answers callers of this machine without credentials."""
    until: str | None = None
    """When the sign-in ends, if it is used until then."""
    csrf: str | None = None
    """The value of the header ``X-Trainshed-Csrf``, which each call with the cookie must have."""
    version: str
    """The version of the server."""
    pageRevision: str
    """The build of the page that the server has; empty without a console."""


class MadeSignInCode(BaseModel):
    """A code with which a browser signs in once, as ``/console/#code=CODE``."""

    code: str
    expireTime: str


class NewDownload(Strict):
    """The address to download: a path below ``/trainshed/v1/`` with its query."""

    path: str = Field(max_length=4096)


class Download(BaseModel):
    """The address with a ticket, which the browser that asked for it can open for 60 seconds."""

    path: str


class Line(BaseModel):
    """One line of a log."""

    time: str
    task: str
    severity: str
    message: str
    trial: str | None = None


class Status(BaseModel):
    """The google.rpc.Status with which every route answers an error."""

    error: dict[str, Any]
