"""``--worker-pool-spec`` and its companions: from gcloud's flags to a CustomJobSpec.

Each flag is a pool, in order; an empty one skips its pool.  Flags have priority over the file:
pools given by flag replace the file's pools, ``--args`` and ``--command`` go to every pool
(docs/sources/gcloud.md 5.1 to 5.3).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainshed.model.faults import UsageFault
from trainshed.service.jobs import submit_flags
from trainshed.service.jobs.refusing import unchanged

FLAG = "--worker-pool-spec"

Pool = dict[str, Any]

#: The keys that say where local code is; only the first pool may have them.
LOCAL_KEYS = ("local-package-path", "script", "requirements", "extra-packages", "extra-dirs")

KEYS = frozenset(
    {
        "machine-type",
        "replica-count",
        "accelerator-type",
        "accelerator-count",
        "container-image-uri",
        "executor-image-uri",
        "output-image-uri",
        "python-module",
        *LOCAL_KEYS,
    }
)

#: The key of the flag by the wire path of a violation below a pool.
KEY_OF_PATH: Mapping[str, str] = {
    "machineSpec.machineType": "machine-type",
    "machineSpec.acceleratorType": "accelerator-type",
    "machineSpec.acceleratorCount": "accelerator-count",
    "machineSpec": "machine-type",
    "replicaCount": "replica-count",
    "containerSpec.imageUri": "container-image-uri",
    "pythonPackageSpec.executorImageUri": "executor-image-uri",
    "pythonPackageSpec.pythonModule": "python-module",
}

#: Fields with a flag of their own, in every pool.
FLAG_OF_PATH: Mapping[str, str] = {
    "containerSpec.args": "--args",
    "pythonPackageSpec.args": "--args",
    "containerSpec.command": "--command",
    "pythonPackageSpec.packageUris": "--python-package-uris",
}

_SNAKE = re.compile(r"_([a-z0-9])")
_POOL_PATH = re.compile(r"(?:jobSpec\.)?workerPoolSpecs\[(\d+)\]\.?(.*)")


def parse_pool(text: str) -> dict[str, str]:
    """Parse one flag's value to a mapping; empty for a skipped pool.  Raises UsageFault."""
    pool = submit_flags.pairs(FLAG, text)
    if unknown := sorted(set(pool) - KEYS):
        raise UsageFault(f"{FLAG} has no key {unknown[0]}; it has {', '.join(sorted(KEYS))}")
    if pool and "machine-type" not in pool:
        raise UsageFault(f"{FLAG} {text!r} lacks the key machine-type")
    if "accelerator-count" in pool and "accelerator-type" not in pool:
        raise UsageFault(f"{FLAG} {text!r} has accelerator-count without accelerator-type")
    return pool


def parse_pools(texts: Sequence[str]) -> list[dict[str, str]]:
    """Parse all flags' values in order.  Raises UsageFault for values that gcloud refuses, too."""
    pools = [parse_pool(text) for text in texts]
    if pools and not pools[0]:
        raise UsageFault(f"the first {FLAG} cannot be empty: it is the primary")
    for pool in pools[1:]:
        for key in ("local-package-path", "script"):
            if key in pool:
                raise UsageFault(f"{FLAG}: the key {key} is only for the first pool")
    return pools


def wire_pool(pool: Mapping[str, str], package_uris: Sequence[str]) -> Pool:
    """Return one pool in the API's form; ``{}`` for a skipped one."""
    if not pool:
        return {}
    machine: dict[str, Any] = {"machineType": pool["machine-type"]}
    if "accelerator-type" in pool:
        machine["acceleratorType"] = pool["accelerator-type"]
        machine["acceleratorCount"] = _number(pool, "accelerator-count")
    wire: Pool = {"machineSpec": machine, "replicaCount": _number(pool, "replica-count")}
    if "container-image-uri" in pool:
        wire["containerSpec"] = {"imageUri": pool["container-image-uri"]}
    elif "script" not in pool and ("executor-image-uri" in pool or "python-module" in pool):
        package = {
            "executorImageUri": pool.get("executor-image-uri"),
            "pythonModule": pool.get("python-module"),
            "packageUris": list(package_uris),
        }
        wire["pythonPackageSpec"] = {key: value for key, value in package.items() if value}
    return wire


def _number(pool: Mapping[str, str], key: str) -> int:
    return submit_flags.whole(f"{FLAG} {key}", pool.get(key, "1"))


def list_pools(value: Any) -> list[Pool] | None:
    """Return the pools of a document, also a single one; None for malformed pools."""
    pools = [value] if isinstance(value, dict) else value
    if not isinstance(pools, list) or not all(isinstance(pool, dict) for pool in pools):
        return None
    return pools


def spread(pools: Sequence[Pool], key: str, value: Sequence[str], *specs: str) -> list[Pool]:
    """Return the pools with ``key`` set to a list in those of ``specs`` that a pool has."""
    return [
        {
            name: {**spec, key: list(value)} if name in specs and isinstance(spec, dict) else spec
            for name, spec in pool.items()
        }
        for pool in pools
    ]


def camel_keys(value: Any) -> Any:
    """Return a pool in camelCase, so that flags find the fields that they set."""
    if isinstance(value, list):
        return [camel_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {_SNAKE.sub(_capital, key): camel_keys(item) for key, item in value.items()}


def _capital(match: re.Match[str]) -> str:
    return match[1].upper()


def worder(*, pools_by_flag: bool) -> Callable[[str], str]:
    """Return a function that turns a wire path into a flag, if the pools came by flag."""
    return _in_flags if pools_by_flag else unchanged


def _in_flags(wire_path: str) -> str:
    match = _POOL_PATH.fullmatch(wire_path)
    if not match:
        return wire_path
    index, rest = match.groups()
    if rest in FLAG_OF_PATH:
        return FLAG_OF_PATH[rest]
    key = KEY_OF_PATH.get(rest)
    return f"{FLAG}[{index}]" + (f" {key}" if key else "")
