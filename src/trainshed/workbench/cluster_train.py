"""Makes the job of ``local train`` from a file or from machine flags."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainshed.model.faults import UsageFault
from trainshed.model.roles import Dialect
from trainshed.service.jobs.judging import Accepted, Rulebook, accept, judge
from trainshed.service.jobs.merging import merge, put, with_args
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.workbench.documents import read_one


def cluster_job(
    config: str | None,
    flags: Mapping[str, str],
    user_args: Sequence[str] | None,
    rulebook: Rulebook,
    *,
    has_package: bool,
) -> Accepted:
    """Merge flags into the job of a file, and validate the job.

    USER_ARGS replace the file's args; a package of the command line replaces its packageUris
    (docs/sources/gcloud.md 3.2).  Raises Fault with all violations, UsageFault for a file that
    cannot be read or has a job of the other dialect.
    """
    content: Mapping[str, Any] = read_one(config).content if config else {"trainingInput": {}}
    if isinstance(kind := kind_of(content), DocumentKind) and kind is not DocumentKind.ML_JOB:
        raise UsageFault(
            f"{config} is {kind.value}; run it with: "
            f"trainshed ai custom-jobs local-run --config {config}"
        )
    merged = with_args(merge(content, flags, has_file=config is not None), user_args)
    if has_package and "packages" not in flags:
        put(merged.content, ("trainingInput", "packageUris"), [])
    return accept(judge(merged, rulebook), Dialect.ML_V1)
