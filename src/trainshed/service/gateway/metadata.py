"""The documents of the metadata server, as on Google's VMs.

Paths and answers are those of cloud.google.com/compute/docs/metadata, limited to what client
libraries request.  An attempt stands for a VM: its replicas share one identity, as they share the
service account at Google.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trainshed.service.gateway.attempts import LivingAttempt

ROOT: Final = "computeMetadata/v1"
TEXT: Final = "application/text"
JSON: Final = "application/json"
#: The OAuth scopes of the machines of a training job at Google.
SCOPES: Final = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/devstorage.full_control",
    "https://www.googleapis.com/auth/userinfo.email",
)
#: The region of a job that names none.
_REGION: Final = "us-central1"
#: A domain that cannot be registered (RFC 6761).
_DOMAIN: Final = "trainshed.invalid"


class MetadataAnswer(NamedTuple):
    content_type: str
    text: str


class Moved(NamedTuple):
    """A directory requested without its trailing slash."""

    path: str


def email_of(attempt: LivingAttempt) -> str:
    """Return the e-mail of an attempt's service account, which is only a name."""
    return f"job-{attempt.key.uid}@{attempt.project.replace(':', '.')}.{_DOMAIN}"


def look_up(
    path: str, query: Mapping[str, str], attempt: LivingAttempt
) -> MetadataAnswer | Moved | None:
    """Return the document at a path below ``/computeMetadata/v1/``; None if there is none.

    Tokens are not included: the HTTP handler makes them.
    """
    tree: Any = _build_tree(attempt)
    names = [name for name in path.split("/") if name]
    for name in names:
        if not isinstance(tree, dict) or name not in tree:
            return None
        tree = tree[name]
    if not isinstance(tree, dict):
        return _render_value(tree, query)
    if query.get("recursive", "").lower() == "true":
        return _render_recursive(tree, query)
    if names and not path.endswith("/"):
        return Moved(f"/{ROOT}/{'/'.join(names)}/")
    return MetadataAnswer(TEXT, "".join(_list_entries(tree)))


def _build_tree(attempt: LivingAttempt) -> dict[str, Any]:
    email, region = email_of(attempt), attempt.location or _REGION
    project_path = f"projects/{attempt.project_number}"
    name = f"job-{attempt.key.uid}-{attempt.key.attempt}"
    account = {"aliases": ["default"], "email": email, "scopes": list(SCOPES)}
    return {
        "instance": {
            "attributes": {},
            "cpu-platform": "Unknown CPU Platform",
            "description": "",
            "hostname": f"{name}.c.{attempt.project}.internal",
            "id": attempt.key.uid,
            "machine-type": f"{project_path}/machineTypes/trainshed",
            "name": name,
            "region": f"{project_path}/regions/{region}",
            "service-accounts": {"default": account, email: account},
            "tags": [],
            "zone": f"{project_path}/zones/{region}-a",
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


def _render_value(leaf: Any, query: Mapping[str, str]) -> MetadataAnswer:
    if query.get("alt") == "json":
        return MetadataAnswer(JSON, json.dumps(leaf))
    lines = leaf if isinstance(leaf, list) else [leaf]
    return MetadataAnswer(TEXT, "\n".join(map(str, lines)))


def _render_recursive(tree: dict[str, Any], query: Mapping[str, str]) -> MetadataAnswer:
    if query.get("alt") == "text":
        return MetadataAnswer(TEXT, "".join(_render_lines(tree, "")))
    return MetadataAnswer(JSON, json.dumps(_in_camel_case(tree)))


def _list_entries(tree: dict[str, Any]) -> list[str]:
    return [
        f"{name}/\n" if isinstance(entry, dict) else f"{name}\n" for name, entry in tree.items()
    ]


def _render_lines(tree: dict[str, Any], prefix: str) -> list[str]:
    lines = []
    for name, entry in tree.items():
        if isinstance(entry, dict):
            lines += _render_lines(entry, f"{prefix}{name}/")
        else:
            lines.append(f"{prefix}{name} {_render_value(entry, {}).text}\n")
    return lines


def _in_camel_case(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {_to_camel_case(name): _in_camel_case(entry) for name, entry in tree.items()}


def _to_camel_case(name: str) -> str:
    """Return a key in camel case; names of accounts do not change."""
    return name if "@" in name else re.sub(r"-([a-z])", lambda match: match[1].upper(), name)
