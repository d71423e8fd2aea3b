"""Makes a job for measurement from a job file: sets its hosts, its label and its name."""

import copy
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.faults import UsageFault, Violation
from trainshed.model.labels import MEASURE, PLAN_LABEL
from trainshed.model.texts import count_noun
from trainshed.service.jobs.merging import find_spelling, merge_any, put
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.workbench.documents import read_one
from trainshed.workbench.pool_flags import list_pools

Json = dict[str, Any]

#: The number of pools of a Vertex job that train: the first two.
_TRAINS: Final = 2
#: Counts of replicas that do not train; a measurement leaves them out.
_HELPS: Final = ("parameterServerCount", "evaluatorCount")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredJob:
    """The document of the job, and the command group that creates it."""

    group: str
    document: Json


def measured_job(path: str, hosts: int, name: str, limit_s: int) -> MeasuredJob:
    """Return the job of a file, changed to run on ``hosts`` hosts for at most ``limit_s``.

    Raises UsageFault for other files.
    """
    document = copy.deepcopy(merge_any(read_one(path).content, {}, source=path).content)
    kind = kind_of(document)
    if kind is DocumentKind.ML_JOB:
        put(document, ("jobId",), name)
        _count_workers(path, document, hosts)
        put(document, ("trainingInput", "scheduling", "maxRunningTime"), f"{limit_s}s")
        group = "ai-platform jobs"
    elif kind in {DocumentKind.CUSTOM_JOB, DocumentKind.CUSTOM_JOB_SPEC}:
        document = document if kind is DocumentKind.CUSTOM_JOB else {"jobSpec": document}
        put(document, ("displayName",), name)
        spec = document[find_spelling(document, "jobSpec")]
        if not isinstance(spec, dict):
            raise UsageFault(f"{path}: jobSpec must be a mapping of fields")
        spec[find_spelling(spec, "workerPoolSpecs")] = _pools(path, spec, hosts)
        put(spec, ("scheduling", "timeout"), f"{limit_s}s")
        group = "ai custom-jobs"
    else:
        kind_name = kind.message if isinstance(kind, Violation) else kind.value
        raise UsageFault(f"{path}: {kind_name}; it must be an AI Platform Job or a CustomJob")
    put(document, ("labels", PLAN_LABEL), MEASURE)
    return MeasuredJob(group=group, document=document)


def _count_workers(path: str, document: Json, hosts: int) -> None:
    """Set the number of workers of an AI Platform job: all hosts but the master."""
    training_input = document.get(find_spelling(document, "trainingInput"))
    if not isinstance(training_input, dict):
        raise UsageFault(f"{path}: trainingInput must be a mapping of fields")
    for name in _HELPS:
        training_input.pop(find_spelling(training_input, name), None)
    if hosts == 1 and training_input.get(find_spelling(training_input, "scaleTier")) != "CUSTOM":
        return
    master = training_input.get(find_spelling(training_input, "masterType"))
    if master is None:
        raise UsageFault(
            f"{path}: masterType is missing; set it, and scaleTier CUSTOM, to measure on "
            f"{count_noun(hosts, 'host')}"
        )
    put(training_input, ("workerCount",), str(hosts - 1))
    if hosts > 1:
        _copy_master(training_input, ("masterType", "workerType"), ("masterConfig", "workerConfig"))


def _copy_master(training_input: Json, *pairs: tuple[str, str]) -> None:
    """Describe the workers like the master, if the file describes none."""
    for of_master, of_worker in pairs:
        setting = training_input.get(find_spelling(training_input, of_master))
        if setting is not None and find_spelling(training_input, of_worker) not in training_input:
            put(training_input, (of_worker,), copy.deepcopy(setting))


def _pools(path: str, spec: Json, hosts: int) -> list[Json]:
    """Return the pools of a Vertex job: the first has one host, the second the others."""
    pools = list_pools(spec.get(find_spelling(spec, "workerPoolSpecs")))
    if not pools:
        raise UsageFault(f"{path}: workerPoolSpecs must be a list of pools")
    first, second = copy.deepcopy(pools[0]), copy.deepcopy((pools[1:_TRAINS] or pools[:1])[0])
    put(first, ("replicaCount",), 1)
    put(second, ("replicaCount",), hosts - 1)
    return [first, second] if hosts > 1 else [first]
