"""The folders with checkpoints of earlier attempts, and the files of a trial's metrics."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from trainshed.launch.context import Context
from trainshed.launch.directories import FOLDER, trial_folder, under
from trainshed.launch.variables import (
    AIP_CHECKPOINT_DIR,
    AIP_TENSORBOARD_LOG_DIR,
    CLOUD_ML_HP_METRIC_FILE,
)
from trainshed.model.attempt import MetricsPlan
from trainshed.model.launch_plan import ReplicaPlan

_CHECKPOINTS: Final = FOLDER[AIP_CHECKPOINT_DIR]


def list_checkpoint_folders(context: Context, attempt: int) -> Iterator[str]:
    """List the folders in which earlier attempts may have left checkpoints.

    A program without an output directory may write checkpoints to its working directory.  The next
    attempt has another working directory, and its log names the checkpoints that it cannot read.
    """
    for work in context.site.earlier:
        yield f"{work}/{_CHECKPOINTS}"
    if attempt > 1 and (job_dir := _results(context, context.spec.job_dir)):
        yield job_dir
    if attempt > 1 and (base := _results(context, context.spec.base_output_dir)):
        yield under(base, _CHECKPOINTS)


def metrics_of(context: Context, replicas: Sequence[ReplicaPlan]) -> MetricsPlan | None:
    """Return the files and folders that the supervisor reads for a trial; None outside tuning.

    TensorFlow's summaries are read too, as AI Platform did.  If a program names a file outside the
    site's own folders, the supervisor neither makes nor reads it.
    """
    spec, site = context.spec, context.site
    if context.trial is None or spec.study is None:
        return None
    names = filter(None, (replica.env.get(CLOUD_ML_HP_METRIC_FILE) for replica in replicas))
    folders = (f"{Path(site.metric_file or '').parent}/", f"{site.buckets}/")
    logs = replicas[0].env.get(AIP_TENSORBOARD_LOG_DIR)
    summaries = (_results(context, spec.job_dir), logs and site.path_of(logs))
    return MetricsPlan(
        files=tuple(name for name in names if os.path.normpath(name).startswith(folders)),
        tags=tuple(metric.metric_id for metric in spec.study.metrics),
        summaries=tuple(folder for folder in summaries if folder),
    )


def _results(context: Context, base: str | None) -> str | None:
    """Return the trial's folder below a directory of the job; without a trial the directory."""
    return under(context.site.path_of(base), *trial_folder(context)) if base else None
