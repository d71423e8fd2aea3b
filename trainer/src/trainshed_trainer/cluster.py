"""Reads the identity of this replica and its cluster from CLUSTER_SPEC or TF_CONFIG.

Both variables describe the same cluster.  CLUSTER_SPEC is read first because it lists every
replica; TF_CONFIG omits evaluators.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from trainshed_trainer import contract


@dataclass(frozen=True)
class ClusterPosition:
    """A replica's role, its number within the role, and the addresses of all replicas by role."""

    role: str = contract.PRIMARY
    index: int = 0
    peers: dict[str, list[str]] = field(default_factory=dict)
    trial: str = ""


def read_cluster_position(environ: Mapping[str, str]) -> ClusterPosition | None:
    """Read the position of a replica, or None if no variable describes a cluster.

    Raises ValueError, which contains the variable's name, for a malformed description.
    """
    for name in (contract.CLUSTER_SPEC, contract.TF_CONFIG):
        if environ.get(name):
            return _parse_position(name, environ[name])
    return None


def _parse_position(name: str, text: str) -> ClusterPosition:
    document = _parse_document(name, text)
    cluster = _get_entry(name, document, "cluster", dict)
    task = _get_entry(name, document, "task", dict)
    pool2 = _role_of_pool2(document.get("job"))
    peers = {
        _parse_role(name, key, pool2): _parse_addresses(name, key, cluster[key]) for key in cluster
    }
    role = _parse_role(name, task["type"], pool2) if task.get("type") else contract.PRIMARY
    index = _parse_index(name, task.get("index", 0))
    if peers and contract.PRIMARY not in peers:
        role, index, peers = _promote_first_worker(role, index, peers)
    if role in peers and index >= len(peers[role]):
        raise ValueError(
            f"{name}: task must be in the cluster, got {role} {index} of {len(peers[role])}"
        )
    trial = str(task.get("trial") or "")
    return ClusterPosition(role=role, index=index, peers=peers, trial=trial)


def _parse_document(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} must be JSON: {error}") from None
    document: dict[str, Any] = _check_type(name, "the value", value, dict)
    return document


def _get_entry(name: str, document: dict[str, Any], key: str, kind: type) -> Any:
    """Return one entry; a missing one counts as empty, as gcloud's local runs write it."""
    return _check_type(name, key, document.get(key) or kind(), kind)


def _check_type(name: str, field: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name}: {field} must be a {kind.__name__}, got {value!r}")  # noqa: TRY004  # one kind of error: the environment is wrong
    return value


def _parse_addresses(name: str, key: str, value: Any) -> list[str]:
    return [str(address) for address in _check_type(name, f"cluster.{key}", value, list)]


def _parse_role(name: str, task_type: Any, pool2: str) -> str:
    role = contract.ROLE_OF_TASK.get(str(task_type))
    if role is None:
        accepted = ", ".join(sorted(contract.ROLE_OF_TASK))
        raise ValueError(f"{name}: a task type must be one of {accepted}, got {task_type!r}")
    return pool2 if task_type == "workerpool2" else role


def _parse_index(name: str, value: Any) -> int:
    try:
        index = int(value)
    except (TypeError, ValueError):
        index = -1
    if index < 0:
        raise ValueError(f"{name}: task.index must be 0 or more, got {value!r}")
    return index


def _role_of_pool2(job: Any) -> str:
    """Decide by its image whether pool 2 has reducers or parameter servers, as the service does."""
    pools = _get_either(job, "workerPoolSpecs", "worker_pool_specs")
    pool = pools[2] if isinstance(pools, list) and len(pools) > 2 else None  # noqa: PLR2004  # pool 2
    container = _get_either(pool, "containerSpec", "container_spec")
    image = _get_either(container, "imageUri", "image_uri")
    match = re.search(contract.REDUCTION_IMAGE, str(image or ""))
    return contract.REDUCER if match else contract.PARAMETER_SERVER


def _get_either(value: Any, camel: str, snake: str) -> Any:
    return value.get(camel) or value.get(snake) if isinstance(value, dict) else None


def _promote_first_worker(
    role: str, index: int, peers: dict[str, list[str]]
) -> tuple[str, int, dict[str, list[str]]]:
    """Make the first worker the primary of a cluster without a primary, as TensorFlow does."""
    workers = peers.get(contract.WORKER, [])
    rest = {key: value for key, value in peers.items() if key != contract.WORKER}
    peers = {contract.PRIMARY: workers[:1], contract.WORKER: workers[1:], **rest}
    if role != contract.WORKER:
        return role, index, peers
    return (contract.WORKER, index - 1, peers) if index else (contract.PRIMARY, 0, peers)
