"""Returns what the server sent to an engine for an attempt: plan, script, command line.

Every caller that may see the job may read this.  So secrets are masked: values of variables named
like secrets, and passwords in addresses.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.engines.capabilities import SupportsSentTexts
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.refusals import Code, Refusal
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.study_answers import StudyStartReport
from trainshed.store.records.jobs import JobRecord
from trainshed.wire.native_v1 import Answer

BLOT: Final = "(not shown)"
_SECRET: Final = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTHORIZATION|_AUTH$"
    r"|(?:API|PRIVATE|ACCESS)[_-]?KEY|STORAGE_EMULATOR_HOST",
    re.IGNORECASE,
)
#: Counts of tokens, and tokenizers: parts of names that hold the word and name no secret.
_TOKENS_OF_TEXT: Final = re.compile(
    r"TOKENI[SZ]"
    r"|(?:^|[_-])(?:MAX|MIN|NUM|TOTAL|N)(?:[_-]?(?:NEW|INPUT|OUTPUT|PROMPT|BATCH))?[_-]?TOKENS"
    r"|TOKENS?[_-]?PER(?![A-Z])|TOKENS?[_-]?(?:COUNT|LIMIT)",
    re.IGNORECASE,
)
#: Names of files are not masked: the secret is in the file.
_IS_PLACE: Final = re.compile(r"_(FILE|PATH|DIR)$", re.IGNORECASE)
#: The user and the password of an address.  Without a scheme an address counts only with a port,
#: because names of images have colons and ``@`` too.
_USER_OF_ADDRESS: Final = re.compile(
    r"(?<=://)[^/\s\"]+(?=@)"
    r"|(?<![^\s\"'=])[^\s:/\"'=]+:(?!//)[^\s\"]{1,1024}(?=@(?:[\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}(?!\w))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPart(Answer):
    """A plan, a script or a command line that the server sent to an engine."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Answer):
    """Everything that the server sent to an engine for an attempt of a job."""

    job: str
    attempt: int
    engine: str
    parts: Sequence[SentPart]
    study_start: StudyStartReport | None = None
    """What a new study would have before its first trial; absent for attempts."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """Returns the manifests of attempts, from their engines."""

    stories: Stories
    engines: Engines

    def manifest(self, project: str, job_id: str, attempt: int | None = None) -> Manifest:
        """Return the manifest of an attempt; ``attempt`` None: the newest one.

        Raises Refusal if the attempt does not exist, or its engine stores no manifest.
        """
        record = self.stories.find(project, job_id)
        key = AttemptKey(record.uid, _check_attempt(record, attempt))
        name = self.engines.name_of(key)
        engine = self.engines.find_by_name(name)
        if engine is None:
            raise Refusal(Code.UNAVAILABLE, f"this server runs without the engine {name}")
        if not isinstance(engine, SupportsSentTexts):
            message = f"the engine {name} keeps no copy of the environment of its replicas"
            raise Refusal(Code.FAILED_PRECONDITION, message)
        try:
            texts = engine.read_sent(key)
        except OSError as error:
            message = f"cannot read what the server sent to {name}: {error}; try again later"
            raise Refusal(Code.UNAVAILABLE, message) from error
        if not texts:
            raise Refusal(Code.FAILED_PRECONDITION, _explain_missing(record, key.attempt, name))
        parts = render_parts(texts)
        return Manifest(job=record.name, attempt=key.attempt, engine=name, parts=parts)


def render_parts(texts: Mapping[str, str]) -> Sequence[SentPart]:
    """Render the parts of a manifest, by name, with their secrets masked."""
    return [SentPart(name=name, text=mask_secrets(name, text)) for name, text in texts.items()]


def _check_attempt(record: JobRecord, attempt: int | None) -> int:
    if not record.attempt:
        state = record.job.status.state.value
        message = f"{record.name} is {state} and has no attempt; try again after its first launch"
        raise Refusal(Code.FAILED_PRECONDITION, message)
    if attempt is not None and attempt > record.attempt:
        message = f"{record.name} has no attempt {attempt}; its newest is {record.attempt}"
        raise Refusal(Code.NOT_FOUND, message)
    return record.attempt if attempt is None else attempt


def _explain_missing(record: JobRecord, attempt: int, name: str) -> str:
    state = record.job.status.state.value
    return (
        f"there is no record of the texts sent to {name} for attempt {attempt} of {record.name}: "
        f"the attempt has not begun, or its log was removed; the job is {state}"
    )


def mask_secrets(name: str, text: str) -> str:
    """Mask the secrets of a text; in JSON each value is checked."""
    if not name.endswith(".json"):
        return _USER_OF_ADDRESS.sub(BLOT, text)
    return json.dumps(_blot(json.loads(text)), indent=2, ensure_ascii=False)


def _blot(value: Any) -> Any:
    if isinstance(value, dict):
        blotted = {name: _value(name, child) for name, child in value.items()}
        if isinstance(name := value.get("name"), str) and "value" in value:
            blotted["value"] = _value(name, value["value"])
        return blotted
    if isinstance(value, list):
        return [_blot(child) for child in value]
    return _blot_text(value) if isinstance(value, str) else value


def _blot_text(text: str) -> str:
    """Mask the secrets of a variable's value; some variables, such as CLUSTER_SPEC, hold JSON."""
    if text.lstrip().startswith(("{", "[")):
        try:
            document = json.loads(text)
            blotted = _blot(document)
        except (ValueError, RecursionError):
            return _USER_OF_ADDRESS.sub(BLOT, text)
        return text if blotted == document else json.dumps(blotted, ensure_ascii=False)
    return _USER_OF_ADDRESS.sub(BLOT, text)


def _value(name: str, value: Any) -> Any:
    return _hide(value) if _names_secret(name) else _blot(value)


def _names_secret(name: str) -> bool:
    if _IS_PLACE.search(name):
        return False
    other_words = _TOKENS_OF_TEXT.sub("", name)
    return bool(_SECRET.search(name)) or "TOKEN" in other_words.upper()


def _hide(value: Any) -> Any:
    """Mask all texts and numbers of a value; names, booleans and empty texts stay."""
    if isinstance(value, dict):
        return {name: _hide(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_hide(child) for child in value]
    return value if value in ("", None) or isinstance(value, bool) else BLOT
