"""Reads the addresses of the reducers and the job's token from a replica's environment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Mapping

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.links import Address

REDUCERS = "TRAINSHED_REDUCERS"
TOKEN = "TRAINSHED_REDUCTION_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "TRAINSHED_REDUCTION_TOKEN_FILE"  # noqa: S105 - the name of a variable
#: The fewest bytes of a token (docs/sources/reduction.md 6).
TOKEN_MIN = 32


def reducers_of(environ: Mapping[str, str]) -> list[Address]:
    """Read the host and port of every reducer, in the same order on all replicas.

    They are in ``TRAINSHED_REDUCERS``, or else in pool 2 of ``CLUSTER_SPEC`` if the job's document
    there has the Reduction Server's image.  Raises :class:`ReductionError` for a malformed list.
    """
    if environ.get(REDUCERS):
        return [_parse_address(text, REDUCERS) for text in environ[REDUCERS].split(",")]
    try:
        spec = json.loads(environ.get(contract.CLUSTER_SPEC) or "{}")
        pool = spec.get("cluster", {}).get("workerpool2", [])
        job: Any = spec.get("job", "")
    except (ValueError, AttributeError):
        raise ReductionError(f"{contract.CLUSTER_SPEC} must be a cluster in JSON") from None
    if not pool or not _has_reduction_image(job):
        return []
    return [_parse_address(text, contract.CLUSTER_SPEC) for text in pool]


def token_of(environ: Mapping[str, str]) -> bytes:
    """Read the job's token; :class:`ReductionError` if there is none."""
    path = environ.get(TOKEN_FILE)
    try:
        text = Path(path).read_text(encoding="ascii") if path else environ.get(TOKEN, "")
    except (OSError, ValueError) as error:
        raise ReductionError(f"cannot read the file in {TOKEN_FILE}: {error}") from None
    if len(text.strip()) < TOKEN_MIN:
        raise ReductionError(
            f"the job's token must have at least {TOKEN_MIN} characters: set {TOKEN_FILE} to a"
            f" file with the token, or {TOKEN} to the token"
        )
    return text.strip().encode()


def _parse_address(text: str, variable: str) -> Address:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ReductionError(f"{variable} must be a list of HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


def _has_reduction_image(job: Any) -> bool:
    """Return whether the job's document has the Reduction Server's image in pool 2."""
    try:
        document = json.loads(job) if isinstance(job, str) else job
        specs = document.get("worker_pool_specs") or document.get("workerPoolSpecs")
        container = specs[2].get("container_spec") or specs[2].get("containerSpec")
        image = container.get("image_uri") or container.get("imageUri")
        return re.search(contract.REDUCTION_IMAGE, image) is not None
    except (ValueError, AttributeError, LookupError, TypeError):
        return False
