"""Reads the runs of an experiment from MLflow's file store, ``mlruns/ID``, without MLflow.

A run is a folder: ``meta.yaml`` has its state, each file below ``params`` a value, and each file
below ``metrics`` a line ``time value step`` for each value.  Names with slashes are subfolders.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.study_start import ResultRow
from trainshed.workbench.documents import read_one, read_text
from trainshed.workbench.known_results.tables import SUCCESSES, describe_state

META: Final = "meta.yaml"
#: The states of runs; the file store writes their numbers.
_STATES: Final = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_NAME_TAG: Final = "tags/mlflow.runName"


def is_mlflow(folder: Path) -> bool:
    """Return whether a folder is an experiment, or has experiments."""
    return (folder / META).is_file() or any(_list_experiments(folder))


def read_mlflow(folder: Path) -> Iterator[ResultRow]:
    """Yield the finished runs of an experiment, the oldest first.  Raises UsageFault."""
    experiment = folder if (folder / META).is_file() else _only_experiment(folder)
    runs = [(run, _read_meta(run)) for run in experiment.iterdir() if (run / META).is_file()]
    runs.sort(key=lambda pair: (str(pair[1].get("start_time") or "").zfill(20), pair[0].name))
    title = _read_meta(experiment).get("name") or experiment.name
    source = f"MLflow experiment {title} of {folder}"
    for run, meta in runs:
        if meta.get("lifecycle_stage", "active") == "active":
            yield replace(_read_run(run, meta), source=source)


def _list_experiments(folder: Path) -> Iterator[Path]:
    return (entry for entry in sorted(folder.iterdir()) if (entry / META).is_file())


def _only_experiment(folder: Path) -> Path:
    experiments = list(_list_experiments(folder))
    if len(experiments) == 1:
        return experiments[0]
    names = ", ".join(str(experiment) for experiment in experiments[:8])
    raise UsageFault(f"{folder} has {len(experiments)} experiments; name one of {names}")


def _read_meta(run: Path) -> Mapping[str, Any]:
    content = read_one(str(run / META)).content
    if not isinstance(content, Mapping):
        raise UsageFault(f"{run / META} must have names and values")
    return content


def _read_run(run: Path, meta: Mapping[str, Any]) -> ResultRow:
    status = str(meta.get("status", ""))
    state = _STATES.get(status, status)
    tag = run / _NAME_TAG
    title = str(meta.get("run_name") or (read_text(tag).strip() if tag.is_file() else ""))
    return ResultRow(
        name=f"run {title or run.name[:12]}",
        parameters={name: read_text(file).strip() for name, file in _list_files(run / "params")},
        metrics={name: _read_newest(file) for name, file in _list_files(run / "metrics")},
        fault="" if state in SUCCESSES else describe_state(state),
    )


def _list_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _read_newest(file: Path) -> float:
    """Return the value of the last step; of several, the one that was logged last."""
    values: list[tuple[int, int, float]] = []
    for line in read_text(file).splitlines():
        words = [*line.split(), "0", "0"]
        try:
            values.append((int(words[2]), int(words[0]), float(words[1])))
        except ValueError:
            raise UsageFault(f"{file} must have lines of a time, a value and a step") from None
    if not values:
        raise UsageFault(f"{file} has no value")
    return max(values, key=lambda entry: entry[:2])[2]
