"""The variables CLOUD_ML_* and AIP_*: the job, its trial, and the folders for results.

Source: docs/sources/vertex.md 10.
"""

from collections.abc import Callable, Mapping
from typing import Final

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.names import task_name
from trainshed.model.roles import Dialect, Role
from trainshed.model.trainer_contract import BUCKETS

#: The folder under the base directory that each variable names.
FOLDER: Final[Mapping[str, str]] = {
    names_of.AIP_MODEL_DIR: "model",
    names_of.AIP_CHECKPOINT_DIR: "checkpoints",
    names_of.AIP_TENSORBOARD_LOG_DIR: "logs",
}

#: The folders below the base directory, which the server or the local run makes.
AIP_FOLDERS: Final = tuple(FOLDER.values())

#: CLOUD_ML_PROJECT_ID is the project's number on Vertex, in spite of its name.
PROJECT: Final[Mapping[Dialect, Callable[[Context], str]]] = {
    Dialect.ML_V1: lambda context: context.site.project,
    Dialect.AIPLATFORM_V1: lambda context: context.site.project_number,
}


def variables(context: Context, role: Role, index: int) -> Variables:
    """Return the variables for a replica's job, its trial and its output directories."""
    return {
        **_identity(context),
        **_trial(context, role, index),
        **_directories(context),
    }


def under(base: str, *names: str) -> str:
    """Join a directory and names below it with exactly one slash between any two."""
    return "/".join((base.rstrip("/"), *names))


def trial_folder(context: Context) -> tuple[str, ...]:
    """Return the folder name of a trial's results as a tuple; empty outside tuning."""
    return (context.trial.trial_id,) if context.trial else ()


def _identity(context: Context) -> Variables:
    env = {
        names_of.CLOUD_ML_JOB_ID: context.job_id,
        names_of.CLOUD_ML_PROJECT_ID: PROJECT[context.spec.dialect](context),
    }
    if context.spec.region:
        env[names_of.CLOUD_ML_REGION] = context.spec.region
    return env


def _trial(context: Context, role: Role, index: int) -> Variables:
    if context.trial is None:
        return {}
    env = {names_of.CLOUD_ML_TRIAL_ID: context.trial.trial_id}
    if context.site.metric_file:
        env[names_of.CLOUD_ML_HP_METRIC_FILE] = _metric_file(context, role, index)
    if context.spec.study and context.spec.study.metrics:
        env[names_of.CLOUD_ML_HP_METRIC_TAG] = context.spec.study.metrics[0].metric_id
    return env


def _metric_file(context: Context, role: Role, index: int) -> str:
    """Return the file for the primary, and another one next to it for each other replica.

    Each report rewrites the whole file (docs/sources/vertex.md 10.1), and replicas that share a
    machine would overwrite each other's lines.
    """
    if role is Role.PRIMARY:
        return context.site.metric_file or ""
    return f"{context.site.metric_file}.{task_name(context.spec.dialect, role, index)}"


def _directories(context: Context) -> Variables:
    mounted = {BUCKETS: context.site.buckets} if context.site.buckets else {}
    if not context.spec.base_output_dir:
        return mounted
    base = context.site.map_uri(context.spec.base_output_dir)
    folder = trial_folder(context)
    return mounted | {name: under(base, *folder, last, "") for name, last in FOLDER.items()}
