"""``describe --summarize``: the main figures of a job of either dialect in tables."""

from collections.abc import Iterator
from typing import Any

from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import table
from trainshed.client.collections import id_of, state_of
from trainshed.client.faults import Json

_ROLES = (("master", "master"), ("worker", "worker"), ("parameterServer", "parameter server"),
          ("evaluator", "evaluator"))  # fmt: skip
_WORDS = ("scaleTier", "runtimeVersion", "pythonModule", "region", "jobDir")


def summary(job: Json) -> str:
    """The tables, one below the other."""
    rows = list(_overview(job))
    width = max(len(name) for name, _ in rows)
    parts = ["\n".join(f"{name:<{width}}  {value}" for name, value in rows)]
    replicas = list(_replicas(job))
    if replicas:
        parts.append(table(("ROLE", "COUNT", "MACHINE TYPE", "ACCELERATORS"), replicas))
    return "\n\n".join(parts)


def _overview(job: Json) -> Iterator[tuple[str, Any]]:
    yield "id", id_of(job)
    if name := job.get("displayName"):
        yield "name", name
    yield "state", state_of(job)
    for word in ("create", "start", "end"):
        if stamp := job.get(f"{word}Time"):
            yield f"{word} time", date_of(stamp)
    asked = job.get("trainingInput", {})
    for word in _WORDS:
        if word in asked:
            yield word, asked[word]
    if trials := job.get("trainingOutput", {}).get("completedTrialCount"):
        yield "trials", trials
    message = job.get("errorMessage") or job.get("error", {}).get("message")
    if message:
        yield "message", message


def _replicas(job: Json) -> Iterator[tuple[Any, ...]]:
    asked = job.get("trainingInput", {})
    for field, role in _ROLES:
        count = asked.get(f"{field}Count", 1 if field == "master" else 0)
        if f"{field}Type" in asked:
            given = asked.get(f"{field}Config", {}).get("acceleratorConfig", {})
            accelerators = _accelerators(given.get("count"), given.get("type"))
            yield role, count, asked[f"{field}Type"], accelerators
    spec = job.get("jobSpec") or job.get("trialJobSpec") or {}
    for index, pool in enumerate(spec.get("workerPoolSpecs", ())):
        if pool:
            machine = pool.get("machineSpec", {})
            kind = machine.get("machineType", "")
            accelerators = _accelerators(
                machine.get("acceleratorCount"), machine.get("acceleratorType")
            )
            yield f"pool {index}", pool.get("replicaCount", 0), kind, accelerators


def _accelerators(count: Any, kind: Any) -> str:
    return f"{count} {kind}" if count else ""
