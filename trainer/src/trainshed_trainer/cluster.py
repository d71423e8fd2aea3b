"""Reads the identity of this replica and its cluster from CLUSTER_SPEC or TF_CONFIG.

The two say the same in different words.  CLUSTER_SPEC is read first because it lists every replica;
TF_CONFIG leaves evaluators out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from trainshed_trainer import contract


@dataclass(frozen=True)
class Place:
    """A replica's role, its number within the role, and the addresses of all replicas by role."""

    role: str = contract.PRIMARY
    index: int = 0
    peers: dict[str, list[str]] = field(default_factory=dict)
    trial: str = ""


def place_of(environ: Mapping[str, str]) -> Place | None:
    """Read a replica's place, or None where no cluster is described.

    Raises ValueError, with the variable's name in it, when a description cannot be understood.
    """
    for name in (contract.CLUSTER_SPEC, contract.TF_CONFIG):
        if environ.get(name):
            return _place(name, environ[name])
    return None


def _place(name: str, text: str) -> Place:
    document = _document(name, text)
    cluster = _entry(name, document, "cluster", dict)
    task = _entry(name, document, "task", dict)
    pool2 = _role_of_pool2(document.get("job"))
    peers = {_role(name, key, pool2): _addresses(name, key, cluster[key]) for key in cluster}
    role = _role(name, task["type"], pool2) if task.get("type") else contract.PRIMARY
    index = _index(name, task.get("index", 0))
    if peers and contract.PRIMARY not in peers:
        role, index, peers = _promoted(role, index, peers)
    if role in peers and index >= len(peers[role]):
        raise ValueError(f"{name}: {role} {index} is not in its cluster of {len(peers[role])}")
    return Place(role=role, index=index, peers=peers, trial=str(task.get("trial") or ""))


def _document(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    checked: dict[str, Any] = _checked(name, "the value", document, dict)
    return checked


def _entry(name: str, document: dict[str, Any], key: str, kind: type) -> Any:
    """Read one entry; a missing one is empty, as gcloud's local run writes it."""
    return _checked(name, key, document.get(key) or kind(), kind)


def _checked(name: str, what: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name}: {what} should be a {kind.__name__}, not {value!r}")  # noqa: TRY004  # one kind of error: the environment is wrong
    return value


def _addresses(name: str, key: str, value: Any) -> list[str]:
    return [str(address) for address in _checked(name, f"cluster.{key}", value, list)]


def _role(name: str, word: Any, pool2: str) -> str:
    role = contract.ROLE_OF_TASK.get(str(word))
    if role is None:
        known_types = ", ".join(sorted(contract.ROLE_OF_TASK))
        raise ValueError(f"{name}: {word!r} is no type of task; known are {known_types}")
    return pool2 if word == "workerpool2" else role


def _index(name: str, value: Any) -> int:
    try:
        index = int(value)
    except (TypeError, ValueError):
        index = -1
    if index < 0:
        raise ValueError(f"{name}: task.index should be a number from 0, not {value!r}")
    return index


def _role_of_pool2(job: Any) -> str:
    """Tell reducers from parameter servers by the image of their pool, as the service does."""
    pools = _either(job, "workerPoolSpecs", "worker_pool_specs")
    pool = pools[2] if isinstance(pools, list) and len(pools) > 2 else None  # noqa: PLR2004  # pool 2
    image = _either(_either(pool, "containerSpec", "container_spec"), "imageUri", "image_uri")
    match = re.search(contract.REDUCTION_IMAGE, str(image or ""))
    return contract.REDUCER if match else contract.PARAMETER_SERVER


def _either(value: Any, camel: str, snake: str) -> Any:
    """Read an entry in either case of the caller's document, or None where there is none."""
    return value.get(camel) or value.get(snake) if isinstance(value, dict) else None


def _promoted(
    role: str, index: int, peers: dict[str, list[str]]
) -> tuple[str, int, dict[str, list[str]]]:
    """Make the first worker the primary of a cluster that names none, as TensorFlow does."""
    workers = peers.get(contract.WORKER, [])
    rest = {key: value for key, value in peers.items() if key != contract.WORKER}
    peers = {contract.PRIMARY: workers[:1], contract.WORKER: workers[1:], **rest}
    if role != contract.WORKER:
        return role, index, peers
    return (contract.WORKER, index - 1, peers) if index else (contract.PRIMARY, 0, peers)
