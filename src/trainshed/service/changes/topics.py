"""The topics of a stream of changes: what a page shows and follows."""

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid

#: The most topics of one stream; a page shows two or three things at once.
TOPICS_MAX: Final = 16
#: No name of a job is longer, and no id of a project.
_TEXT: Final = re.compile(r"(?P<kind>[a-z]+)(?::(?P<project>[^/]{1,100})(?:/(?P<job>.{1,1000}))?)?")


class TopicKind(enum.Enum):
    """The kinds of topics; the value is the word before the colon, and the name of the event."""

    QUEUE = "queue"
    JOB = "job"
    LOG = "log"
    NODES = "nodes"
    STUDY = "study"

    @property
    def form(self) -> str:
        """Return how a topic of this kind is written."""
        return _FORMS[self]


_FORMS: Final = {
    TopicKind.QUEUE: "queue:PROJECT",
    TopicKind.JOB: "job:PROJECT/JOB",
    TopicKind.LOG: "log:PROJECT/JOB",
    TopicKind.NODES: "nodes",
    TopicKind.STUDY: "study:PROJECT/JOB",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the caller wrote it."""

    kind: TopicKind
    project: str = ""
    job: str = ""


class TopicScope(NamedTuple):
    """What is looked at for a topic; callers with the same rights share it."""

    kind: TopicKind
    project: str | None
    """None: all projects.  For ``NODES``: the project whose jobs the caller may know by name."""
    job: str = ""
    uid: JobUid = JobUid(0)
    """The uid of the job; 0 for ``QUEUE`` and ``NODES``."""


def parse_topic(text: str) -> Topic:
    """Parse a topic such as ``queue:demo`` or ``job:demo/census_1``.  Raises Refusal."""
    match = _TEXT.fullmatch(text)
    kind = next((kind for kind in TopicKind if match and kind.value == match["kind"]), None)
    if match is None or kind is None or not _has_parts(kind, match["project"], match["job"]):
        accepted = ", ".join(_FORMS.values())
        message = f"topic must be one of {accepted}, got {text[:200]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return Topic(kind, match["project"] or "", match["job"] or "")


def _has_parts(kind: TopicKind, project: str | None, job: str | None) -> bool:
    form = kind.form
    return (project is not None) == (":" in form) and (job is not None) == ("/" in form)
