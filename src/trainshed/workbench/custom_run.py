"""Makes the job of ``custom-jobs local-run`` from a file or flags, and validates it.

The file may be a CustomJobSpec, as gcloud takes it, or a whole CustomJob, as the API stores it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainshed.model.faults import UsageFault
from trainshed.model.roles import Dialect
from trainshed.service.jobs import submit_flags
from trainshed.service.jobs.judging import Accepted, Rulebook, accept, accept_unchecked, judge
from trainshed.service.jobs.merging import find_spelling, put
from trainshed.service.jobs.refusing import Merged
from trainshed.storage.buckets import SCHEME
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.workbench.documents import read_one
from trainshed.workbench.local_program import LocalProgram, install_program, is_reducer, program_of
from trainshed.workbench.pool_flags import (
    Pool,
    camel_keys,
    list_pools,
    parse_pools,
    spread,
    wire_pool,
    worder,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFlags:
    """The options of the command line.  ``words`` are the flags with one value, by name."""

    words: Mapping[str, str | None] = field(default_factory=dict)
    pool_specs: Sequence[str] = ()
    user_args: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomRun:
    """A valid job, and its program on this machine, if the flags name one."""

    accepted: Accepted
    program: LocalProgram
    judged: bool
    """Whether the job was checked by the catalog; a program without machines is not."""


def custom_run(config: str | None, flags: CustomFlags, rulebook: Rulebook) -> CustomRun:
    """Merge file and flags, and validate the job.  Raises Fault with all violations, UsageFault."""
    document = read_one(config).content if config else {}
    if document and kind_of(document) is DocumentKind.ML_JOB:
        raise UsageFault(
            f"{config} is an AI Platform job; run it with: "
            f"trainshed ai-platform local train --config {config}"
        )
    flagged = parse_pools(flags.pool_specs)
    program = program_of(flags.words, flagged[0] if flagged else {})
    judged = bool(config or flagged)
    if not (judged or program.command):
        raise UsageFault(
            "nothing to run: give --script or --python-module, --worker-pool-spec or --config"
        )
    merged = _merge_flags(document, flags, flagged, program)
    accepted = (
        accept(judge(merged, rulebook), _DIALECT) if judged else accept_unchecked(merged, _DIALECT)
    )
    name = flags.words.get("display-name") or accepted.spec.display_name
    return CustomRun(
        accepted=replace(accepted, spec=replace(accepted.spec, display_name=name)),
        program=program,
        judged=judged,
    )


_DIALECT = Dialect.AIPLATFORM_V1


def _merge_flags(
    document: Json, flags: CustomFlags, flagged: Sequence[Mapping[str, str]], program: LocalProgram
) -> Merged:
    content, spec = _job_spec(document)
    uris = submit_flags.words(flags.words.get("python-package-uris") or "")
    key = find_spelling(spec, "workerPoolSpecs")
    if flagged:
        spec[key] = [wire_pool(pool, uris) for pool in flagged]
    elif key not in spec:
        spec[key] = [{"replicaCount": 1, "containerSpec": {}}]
    spec[key] = _pools(spec[key], flags, program)
    if base := flags.words.get("base-output-dir"):
        output = base if base.startswith(SCHEME) else str(Path(base).absolute())
        put(spec, ("baseOutputDirectory", "outputUriPrefix"), output)
    return Merged(
        content=content, words=worder(pools_by_flag=bool(flagged)), region=flags.words.get("region")
    )


def _job_spec(document: Json) -> tuple[Json, Json]:
    content = dict(document)
    key = find_spelling(content, "jobSpec")
    if not isinstance(content.get(key), dict):
        return content, content
    content[key] = dict(content[key])
    return content, content[key]


def _pools(pool_list: Any, flags: CustomFlags, program: LocalProgram) -> Any:
    """Return the pools with the command line's program, command and args, if well-formed."""
    pools = list_pools(pool_list)
    if pools is None:
        return pool_list
    args = [*submit_flags.words(flags.words.get("args") or ""), *(flags.user_args or ())]
    command = submit_flags.words(flags.words.get("command") or "")
    if program.command or args or command:
        pools = install_program([camel_keys(pool) for pool in pools], program)
    if args:
        pools = _with_flags(pools, "args", args, "containerSpec", "pythonPackageSpec")
    if command:
        pools = _with_flags(pools, "command", command, "containerSpec")
    return pools


def _with_flags(pools: Sequence[Pool], key: str, value: Sequence[str], *specs: str) -> list[Pool]:
    """Apply the command line's flags to the training pools, not to reducers."""
    spread_pools = spread(pools, key, value, *specs)
    return [
        pool if is_reducer(index, pool) else changed
        for index, (pool, changed) in enumerate(zip(pools, spread_pools, strict=True))
    ]
