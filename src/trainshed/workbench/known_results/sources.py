"""Finds out what a user names as known results or as a first point, and reads it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainshed.model.faults import UsageFault
from trainshed.model.study_start import PointRow, RawValue, ResultRow
from trainshed.workbench.documents import read_text
from trainshed.workbench.known_results.documents import (
    list_items,
    parse_json,
    read_json,
    read_values,
)
from trainshed.workbench.known_results.mlflow_runs import is_mlflow, read_mlflow
from trainshed.workbench.known_results.optuna_storages import (
    hide_user,
    is_storage,
    read_optuna,
)
from trainshed.workbench.known_results.tables import read_cells, read_csv

#: Ends of names that are meant as files.
_FILE_ENDS: Final = (".csv", ".json", ".db", ".log", ".jsonl", ".sqlite", ".sqlite3", ".yaml")
_JSON_STARTS: Final = ("[", "{")
_PREFIX: Final = "parameters."
_EXPORT: Final = "export the runs of an MLflow server as CSV, and name that file"
#: What to do with an address that Optuna cannot open, by its scheme.
_NO_STORAGES: Final = {
    "gs": "copy the file to this machine with gcloud storage cp, and name the copy",
    "http": _EXPORT,
    "https": _EXPORT,
}
_POINTS: Final = 'a list of objects such as {"lr": 0.1, "batch_size": 64}'


@dataclass(slots=True)
class NamedResults:
    """What a user has named as known results."""

    rows: list[ResultRow] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """Where the rows are from: a file, a study of Optuna, an experiment of MLflow."""
    studies: list[str] = field(default_factory=list)
    """Names that are no files: studies on a server."""


def read_results(names: Sequence[str]) -> NamedResults:
    """Read the files among the names.  Raises UsageFault for one that has no results."""
    results = NamedResults()
    for name in names:
        rows = _read(name)
        if rows is None:
            results.studies.append(name)
            continue
        if not rows:
            raise UsageFault(f"{name} has no results")
        results.rows += [replace(row, source=row.source or hide_user(name)) for row in rows]
    results.sources = list(dict.fromkeys(row.source for row in results.rows))
    return results


def _read(name: str) -> list[ResultRow] | None:
    """Return the results of a file, a folder or a storage; None if the name is none of them."""
    path = Path(name.partition("#")[0]).expanduser()
    if "://" in name:
        scheme = name.partition("://")[0]
        if scheme in _NO_STORAGES:
            raise UsageFault(f"{hide_user(name)} is no Optuna storage; {_NO_STORAGES[scheme]}")
        return list(read_optuna(name))
    if path.is_dir():
        if not is_mlflow(path):
            message = f"{name} must be a folder of MLflow: an experiment such as mlruns/0"
            raise UsageFault(message)
        return list(read_mlflow(path))
    if path.is_file():
        return list(_read_file(name, path))
    if path.suffix.lower() in _FILE_ENDS:
        raise UsageFault(f"there is no file {path}")
    return None


def _read_file(name: str, path: Path) -> Iterator[ResultRow]:
    if is_storage(path):
        return read_optuna(name)
    text = read_text(path)
    read = read_json if text.lstrip().startswith(_JSON_STARTS) else read_csv
    return read(text, path.name)


def read_points(words: Sequence[str]) -> list[PointRow]:
    """Read points such as ``lr=0.1,batch_size=64``, and files of points.  Raises UsageFault."""
    return [point for word in words for point in _read_points(word)]


def _read_points(word: str) -> Iterator[PointRow]:
    path = Path(word).expanduser()
    if _is_file(path):
        yield from _read_points_file(path)
    elif "=" in word:
        yield PointRow(name=word, parameters=_parse_point(word))
    else:
        accepted = "NAME=VALUE,... or a file that exists"
        raise UsageFault(f"--enqueue must be {accepted}, got {word}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a point that is too long for a name
        return False


def _parse_point(word: str) -> dict[str, RawValue]:
    values: dict[str, RawValue] = {}
    for part in word.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name or name in values:
            accepted = "NAME=VALUE,... with each name once; a file can have values with commas"
            raise UsageFault(f"--enqueue must be {accepted}, got {word}")
        values[name.strip()] = value.strip()
    return values


def _read_points_file(path: Path) -> Iterator[PointRow]:
    text = read_text(path)
    if not text.lstrip().startswith(_JSON_STARTS):
        for name, cells in read_cells(text, path.name):
            prefixed = {
                column.removeprefix(_PREFIX): cell
                for column, cell in cells.items()
                if column.startswith(_PREFIX)
            }
            yield PointRow(name=name, parameters=prefixed or cells, source=name)
        return
    for name, item in list_items(parse_json(text, path.name), path.name, _POINTS):
        values = item.get("parameters") if isinstance(item.get("parameters"), dict) else item
        yield PointRow(name=name, parameters=read_values(values, name), source=name)
