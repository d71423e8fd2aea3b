"""From the flags that all creates share to a job that a server has taken."""

import argparse
from collections.abc import Iterable
from typing import Any

from trainshed.client.faults import Json, ServerRefusal
from trainshed.client.http import Server
from trainshed.model.faults import UsageFault
from trainshed.service.refusing import Merged
from trainshed.workbench.job_drafts import SPEC_SWITCHES, SPEC_WORDS, Draft

_KMS_PARTS = {
    "kms_location": "locations",
    "kms_keyring": "keyRings",
    "kms_key": "cryptoKeys",
}


def draft_of(args: argparse.Namespace, project: str, rows: Iterable[tuple[str, str, str]]) -> Draft:
    """What the flags of a Vertex create say; ``rows`` are those of one value."""
    words = {name: getattr(args, f"word:{name}") for name, _, _ in rows}
    spec, kms_key = spec_flags(args, project)
    return Draft(
        config=args.config,
        words={name: value for name, value in words.items() if value is not None},
        spec=spec,
        kms_key=kms_key,
    )


def spec_flags(args: argparse.Namespace, project: str) -> tuple[dict[str, Any], str | None]:
    """The fields of the spec that flags give, and the name of the key."""
    given = vars(args)
    words = {
        field: given[f"spec:{name}"]
        for name, field in SPEC_WORDS.items()
        if given.get(f"spec:{name}")
    }
    switches = {field: True for name, field in SPEC_SWITCHES.items() if given.get(f"switch:{name}")}
    return {**words, **switches}, _kms_key(args, project)


def send(server: Server, path: str, merged: Merged) -> Json:
    """Create a resource.  A refusal names the flags that set the fields at fault."""
    try:
        return server.call("POST", path, merged.content)
    except ServerRefusal as refusal:
        raise refusal.in_words(merged.words) from refusal


def _kms_key(args: argparse.Namespace, project: str) -> str | None:
    if not args.kms_key or "/" in args.kms_key:
        return args.kms_key or None
    parts = [f"projects/{args.kms_project or project}"]
    for name, word in _KMS_PARTS.items():
        if not getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageFault(f"--kms-key {args.kms_key} wants {flag}, or a full name")
        parts.append(f"{word}/{getattr(args, name)}")
    return "/".join(parts)
