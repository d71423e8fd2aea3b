"""The metadata server's documents, as Google's machines have them.

Paths and answers are those of cloud.google.com/compute/docs/metadata; of the tree there is what
client libraries ask for.  A machine here is an attempt: its replicas share one identity, as they
share the service account at Google.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trainshed.service.gateway.attempts import LivingAttempt

ROOT: Final = "computeMetadata/v1"
TEXT: Final = "application/text"
JSON: Final = "application/json"
#: What Google gives to the machines of a training job.
SCOPES: Final = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/devstorage.full_control",
    "https://www.googleapis.com/auth/userinfo.email",
)
#: Where a job runs that names no region.
_REGION: Final = "us-central1"
#: No address that anybody can own (RFC 6761).
_DOMAIN: Final = "trainshed.invalid"


class MetadataAnswer(NamedTuple):
    """An answer."""

    content_type: str
    text: str


class Moved(NamedTuple):
    """A folder that was asked for without its slash."""

    path: str


def email_of(attempt: LivingAttempt) -> str:
    """The service account of an attempt: a name, which is good for nothing by itself."""
    return f"job-{attempt.key.uid}@{attempt.project.replace(':', '.')}.{_DOMAIN}"


def look_up(
    path: str, query: Mapping[str, str], attempt: LivingAttempt
) -> MetadataAnswer | Moved | None:
    """What is at a path below ``/computeMetadata/v1/``; None: there is nothing.

    Tokens are not in it: whoever answers makes them.
    """
    found: Any = _tree(attempt)
    names = [name for name in path.split("/") if name]
    for name in names:
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    if not isinstance(found, dict):
        return _value(found, query)
    if query.get("recursive", "").lower() == "true":
        return _recursive(found, query)
    if names and not path.endswith("/"):
        return Moved(f"/{ROOT}/{'/'.join(names)}/")
    return MetadataAnswer(TEXT, "".join(_entries(found)))


def _tree(attempt: LivingAttempt) -> dict[str, Any]:
    email, region = email_of(attempt), attempt.location or _REGION
    home = f"projects/{attempt.project_number}"
    name = f"job-{attempt.key.uid}-{attempt.key.attempt}"
    account = {"aliases": ["default"], "email": email, "scopes": list(SCOPES)}
    return {
        "instance": {
            "attributes": {},
            "cpu-platform": "Unknown CPU Platform",
            "description": "",
            "hostname": f"{name}.c.{attempt.project}.internal",
            "id": attempt.key.uid,
            "machine-type": f"{home}/machineTypes/trainshed",
            "name": name,
            "region": f"{home}/regions/{region}",
            "service-accounts": {"default": account, email: account},
            "tags": [],
            "zone": f"{home}/zones/{region}-a",
        },
        "project": {
            "attributes": {},
            "numeric-project-id": _number(attempt.project_number),
            "project-id": attempt.project,
        },
        "universe": {"universe-domain": "googleapis.com"},
    }


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _value(found: Any, query: Mapping[str, str]) -> MetadataAnswer:
    if query.get("alt") == "json":
        return MetadataAnswer(JSON, json.dumps(found))
    lines = found if isinstance(found, list) else [found]
    return MetadataAnswer(TEXT, "\n".join(map(str, lines)))


def _recursive(found: dict[str, Any], query: Mapping[str, str]) -> MetadataAnswer:
    if query.get("alt") == "text":
        return MetadataAnswer(TEXT, "".join(_lines(found, "")))
    return MetadataAnswer(JSON, json.dumps(_in_camel_case(found)))


def _entries(found: dict[str, Any]) -> list[str]:
    return [f"{name}/\n" if isinstance(each, dict) else f"{name}\n" for name, each in found.items()]


def _lines(found: dict[str, Any], above: str) -> list[str]:
    lines = []
    for name, each in found.items():
        if isinstance(each, dict):
            lines += _lines(each, f"{above}{name}/")
        else:
            lines.append(f"{above}{name} {_value(each, {}).text}\n")
    return lines


def _in_camel_case(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    return {_camel(name): _in_camel_case(each) for name, each in found.items()}


def _camel(name: str) -> str:
    """Names of accounts stay as they are."""
    return name if "@" in name else re.sub(r"-([a-z])", lambda found: found[1].upper(), name)
