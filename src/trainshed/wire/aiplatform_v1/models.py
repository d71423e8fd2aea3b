"""Parses models of uploads and pipelines, and renders them for clients.

A model is a document that names a folder of artifacts.  The server does not copy the artifacts, and
does not serve predictions.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trainshed.launch.directories import under
from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import MODELS, PIPELINES, resource_name
from trainshed.wire.fields import table
from trainshed.wire.jsonmap import read
from trainshed.wire.parsed import as_written, compact
from trainshed.wire.times import rfc3339

#: The form that Google documents for ``modelId``.
MODEL_ID: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
PARENT: Final = re.compile(r"projects/[^/]+/locations/[^/]+/models/([^/@]+)(?:@[^/@]+)?")
DEFAULT: Final = "default"
#: The largest document; the artifacts are in a bucket.
DOCUMENT_BYTES_MAX: Final = 65536

_UPLOADED: Final = "type.googleapis.com/google.cloud.aiplatform.v1.UploadModelResponse"
_METADATA: Final = "type.googleapis.com/google.cloud.aiplatform.v1.UploadModelOperationMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDraft:
    """A requested version of a model.  ``parent`` is the id of an existing model, or empty."""

    document: str
    model_id: str = ""
    parent: str = ""

    @property
    def artifact_uri(self) -> str:
        """The folder of the artifacts; empty if the document names none."""
        return str(json.loads(self.document).get("artifactUri", ""))


def upload_request(document: Mapping[str, Any]) -> tuple[ModelDraft, tuple[Violation, ...]]:
    """Parse an UploadModelRequest; the draft is valid only without violations."""
    reading = read(table("aiplatform_v1"), "UploadModelRequest", document)
    violations = (
        *reading.violations,
        *check_names(document, reading.value),
        *_missing_fields(document, reading.value),
    )
    return _draft(reading.value, reading.value.get("model", {})), violations


def _missing_fields(document: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[Violation]:
    if not value.get("model", {}).get("displayName"):
        yield Violation(
            field=as_written(document, "model.displayName"),
            rule="display-name",
            message="a model must have a display name",
            accepted="1 to 128 characters",
        )


def model_of_pipeline(spec: JobSpec) -> ModelDraft | None:
    """Return the model that a pipeline produces in AIP_MODEL_DIR; None if it produces none."""
    envelope = json.loads(spec.envelope)
    model = envelope.get("modelToUpload")
    if not model:
        return None
    base = spec.base_output_dir
    folder = {"artifactUri": under(base, "model").rstrip("/")} if base else {}
    return _draft(envelope, {"displayName": spec.display_name, **folder, **model})


def _draft(value: Mapping[str, Any], model: Mapping[str, Any]) -> ModelDraft:
    parent = PARENT.fullmatch(value.get("parentModel", ""))
    return ModelDraft(
        document=compact(model),
        model_id=value.get("modelId", ""),
        parent=parent[1] if parent else "",
    )


def check_names(document: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield violations of an invalid model id or parent name."""
    model_id, parent = value.get("modelId", ""), value.get("parentModel", "")
    if model_id and not MODEL_ID.fullmatch(model_id):
        yield Violation(
            field=as_written(document, "modelId"),
            rule="model",
            message=f"modelId must be a valid model id, got {model_id[:80]!r}",
            accepted="a letter, then up to 62 of a-z, 0-9, _ and -",
        )
    if parent and not PARENT.fullmatch(parent):
        yield Violation(
            field=as_written(document, "parentModel"),
            rule="model",
            message=f"parentModel must be the name of a model, got {parent[:80]!r}",
            accepted="projects/PROJECT/locations/LOCATION/models/MODEL",
        )


def model_json(  # noqa: PLR0913  # what a version of a model consists of
    document: str,
    *,
    name: tuple[str, str, str],
    version: int,
    is_newest: bool,
    pipeline_uid: int | None,
    create_time: datetime,
) -> dict[str, Any]:
    """Render a Model for clients; ``name`` is (project, location, id)."""
    content = json.loads(document)
    project, location, model_id = name
    time = rfc3339(create_time)
    times = dict.fromkeys(
        ("createTime", "updateTime", "versionCreateTime", "versionUpdateTime"), time
    )
    aliases = aliases_of(document, is_newest=is_newest)
    source = pipeline_uid and resource_name(PIPELINES, project, location, str(pipeline_uid))
    return {
        **content,
        "name": resource_name(MODELS, project, location, model_id),
        "versionId": str(version),
        **times,
        **({"versionAliases": aliases} if aliases else {}),
        **({"trainingPipeline": source} if source else {}),
    }


def aliases_of(document: str, *, is_newest: bool) -> list[str]:
    """Return the version aliases of a model; the newest version has the alias ``default``."""
    named = [alias for alias in json.loads(document).get("versionAliases", ()) if alias != DEFAULT]
    return [DEFAULT, *named] if is_newest else named


def upload(name: str, versioned_name: str, time: datetime) -> dict[str, Any]:
    """Render the Operation of a finished upload; ``versioned_name`` is ``NAME@VERSION``."""
    stamp = rfc3339(time)
    model, _, version = versioned_name.rpartition("@")
    return {
        "name": name,
        "metadata": {
            "@type": _METADATA,
            "genericMetadata": {"createTime": stamp, "updateTime": stamp},
        },
        "done": True,
        "response": {"@type": _UPLOADED, "model": model, "modelVersionId": version},
    }
