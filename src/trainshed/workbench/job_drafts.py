"""Makes the job documents that the command line sends to a server, from flags and a file.

This module checks no rules; the server does.  Flags have priority over the file, field by field.
Where in gcloud even an absent flag overrides the file (``packageUris``, ``enableWebAccess`` and
``region``, docs/sources/gcloud.md 3.2), the file's value is kept.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.service.jobs import submit_flags
from trainshed.service.jobs.merging import find_spelling, merge, put, with_args
from trainshed.service.jobs.refusing import Merged, unchanged
from trainshed.workbench.documents import read_one
from trainshed.workbench.pool_flags import (
    FLAG,
    LOCAL_KEYS,
    camel_keys,
    list_pools,
    parse_pools,
    spread,
    wire_pool,
    worder,
)

Json = dict[str, Any]

#: Flags that set a field of the same meaning in every dialect, below the spec of the job.
SPEC_WORDS: Final[Mapping[str, str]] = {
    "service-account": "serviceAccount",
    "network": "network",
    "persistent-resource-id": "persistentResourceId",
}
#: Flags without a value; as with gcloud they can only switch on.
SPEC_SWITCHES: Final[Mapping[str, str]] = {
    "enable-web-access": "enableWebAccess",
    "enable-dashboard-access": "enableDashboardAccess",
}
_TRIALS: Final[Mapping[str, str]] = {
    "max-trial-count": "maxTrialCount",
    "parallel-trial-count": "parallelTrialCount",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The command line's options of a job, in either dialect.

    ``words`` are the given flags with one value, by name; ``spec`` are fields below the spec of the
    job.
    """

    config: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    kms_key: str | None = None

    def content(self) -> Json:
        """Return the file's document, or an empty one.  Raises UsageFault."""
        return copy.deepcopy(read_one(self.config).content) if self.config else {}


def training_job(job_id: str, draft: Draft, user_args: Sequence[str] | None) -> Merged:
    """Return a Job of ``ml/v1``; ``draft.words`` are submit flags.  Raises UsageFault."""
    merged = merge(draft.content(), draft.words, has_file=draft.config is not None)
    merged = with_args(merged, user_args)
    document = merged.content
    put(document, ("jobId",), job_id)
    for name, value in draft.spec.items():
        put(document, ("trainingInput", name), value)
    if draft.kms_key:
        put(document, ("trainingInput", "encryptionConfig", "kmsKeyName"), draft.kms_key)
    return merged


def custom_job(pool_specs: Sequence[str], draft: Draft) -> Merged:
    """Return a CustomJob, from a CustomJobSpec as gcloud takes it or from a whole CustomJob.

    Raises UsageFault.
    """
    document = draft.content()
    if find_spelling(document, "jobSpec") not in document:
        document = {"jobSpec": document}
    spec = document[find_spelling(document, "jobSpec")]
    if not isinstance(spec, dict):
        raise UsageFault(f"{draft.config}: jobSpec must be a mapping of fields")
    flagged = _parse_pool_specs(pool_specs)
    key = find_spelling(spec, "workerPoolSpecs")
    if flagged:
        uris = submit_flags.words(draft.words.get("python-package-uris", ""))
        spec[key] = [wire_pool(pool, uris) for pool in flagged]
    elif not spec.get(key):
        raise UsageFault(f"a custom job needs worker pools: give {FLAG}, or a --config with them")
    spec[key] = _with_flags(spec[key], draft.words)
    spec.update({find_spelling(spec, name): value for name, value in draft.spec.items()})
    _put_envelope(document, draft)
    return Merged(content=document, words=worder(pools_by_flag=bool(flagged)))


def tuning_job(draft: Draft) -> Merged:
    """Return a HyperparameterTuningJob.  Raises UsageFault."""
    document = draft.content()
    for flag, name in _TRIALS.items():
        if flag in draft.words:
            put(document, (name,), submit_flags.whole(f"--{flag}", draft.words[flag]))
        else:
            document.setdefault(find_spelling(document, name), 1)
    if "algorithm" in draft.words:
        put(document, ("studySpec", "algorithm"), submit_flags.choice(draft.words["algorithm"]))
    for name, value in draft.spec.items():
        put(document, ("trialJobSpec", name), value)
    _put_envelope(document, draft)
    return Merged(content=document, words=unchanged)


def _parse_pool_specs(pool_specs: Sequence[str]) -> list[dict[str, str]]:
    pools = parse_pools(pool_specs)
    local_key = next((key for pool in pools for key in LOCAL_KEYS if key in pool), None)
    if local_key:
        raise UsageFault(
            f"{FLAG}: {local_key} packs code into an image, which needs docker and gcloud; "
            "instead, put the code into a package (--python-package-uris with executor-image-uri "
            "and python-module), or run it on this machine with trainshed ai custom-jobs local-run"
        )
    return pools


def _with_flags(pool_list: Any, words: Mapping[str, str]) -> Any:
    """Return the pools with the command line's args, command and packages, if well-formed."""
    pools = list_pools(pool_list)
    if pools is None:
        return pool_list
    words_by_flag = {
        name: submit_flags.words(words[name])
        for name in ("args", "command", "python-package-uris")
        if name in words
    }
    if not words_by_flag:
        return pool_list
    pools = [camel_keys(pool) for pool in pools]
    if "args" in words_by_flag:
        pools = spread(pools, "args", words_by_flag["args"], "containerSpec", "pythonPackageSpec")
    if "command" in words_by_flag:
        pools = spread(pools, "command", words_by_flag["command"], "containerSpec")
    if "python-package-uris" in words_by_flag:
        pools = spread(
            pools, "packageUris", words_by_flag["python-package-uris"], "pythonPackageSpec"
        )
    return pools


def _put_envelope(document: Json, draft: Draft) -> None:
    if "display-name" in draft.words:
        put(document, ("displayName",), draft.words["display-name"])
    if "labels" in draft.words:
        put(document, ("labels",), submit_flags.pairs("--labels", draft.words["labels"]))
    if draft.kms_key:
        put(document, ("encryptionSpec", "kmsKeyName"), draft.kms_key)
