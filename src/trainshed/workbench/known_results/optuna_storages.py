"""Reads the trials of a study from an Optuna storage: a database, or a file of JournalStorage."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.study import Goal
from trainshed.model.study_start import RawValue, ResultRow, UnnamedValue
from trainshed.workbench.known_results.tables import SUCCESSES, describe_state

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_SQLITE: Final = "sqlite:///"
_SQLITE_HEAD: Final = b"SQLite format 3\0"
_USER: Final = re.compile(r"(?<=://)[^/]*@")
#: Each line of a journal is an object with this key.
_JOURNAL_KEY: Final = b'"op_code"'
_HEAD_BYTES: Final = 4096


def is_storage(path: Path) -> bool:
    """Return whether a file is a SQLite database or a journal of Optuna."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return head.startswith(_SQLITE_HEAD) or (head.startswith(b"{") and _JOURNAL_KEY in head)


def hide_user(address: str) -> str:
    """Return an address without its user and password: events and messages show it."""
    return _USER.sub("", address)


def read_optuna(place: str) -> Iterator[ResultRow]:
    """Yield the trials of ``URL#STUDY`` or ``FILE#STUDY``, by number.

    The name may be left out if the storage has one study.  Raises UsageFault.
    """
    address, _, name = place.partition("#")
    try:
        import optuna  # noqa: PLC0415 - reads its own storages only
    except ImportError:
        hint = "pip install --find-links dist 'trainshed[server,report]', or pip install optuna"
        message = (
            f"reading {hide_user(address)} needs optuna on this machine; install it with: {hint}"
        )
        raise UsageFault(message) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = _open(address)
        study = optuna.load_study(study_name=name or _only_study(storage, address), storage=storage)
        trials = study.get_trials(deepcopy=False)
    except KeyError:
        names = ", ".join(_study_names(storage)) or "none"
        message = f"{hide_user(address)} has no study {name} (accepted: {names})"
        raise UsageFault(message) from None
    except UsageFault:
        raise
    except Exception as error:  # Optuna and SQLAlchemy raise many kinds
        reason = " ".join(str(error).split())[:300]
        message = f"cannot read the Optuna storage {hide_user(address)}: {hide_user(reason)}"
        raise UsageFault(message) from error
    source = f"Optuna study {study.study_name} of {hide_user(address)}"
    for trial in sorted(trials, key=lambda one: one.number):
        yield replace(_read_trial(study, trial), source=source)


def _open(address: str) -> "BaseStorage":
    from optuna.storages import JournalStorage, RDBStorage  # noqa: PLC0415
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

    path = Path(address.removeprefix(_SQLITE))
    is_url = "://" in address
    if (not is_url or address.startswith(_SQLITE)) and not path.is_file():
        raise UsageFault(f"there is no file {path}")  # Optuna would make an empty one
    if is_url:
        return RDBStorage(address, skip_table_creation=True)
    with path.open("rb") as file:
        is_database = file.read(len(_SQLITE_HEAD)) == _SQLITE_HEAD
    if is_database:
        return RDBStorage(f"{_SQLITE}{path.absolute()}", skip_table_creation=True)
    return JournalStorage(JournalFileBackend(str(path)))


def _study_names(storage: "BaseStorage") -> list[str]:
    return sorted(study.study_name for study in storage.get_all_studies())


def _only_study(storage: "BaseStorage", address: str) -> str:
    names = _study_names(storage)
    if len(names) == 1:
        return names[0]
    address = hide_user(address)
    accepted = ", ".join(f"{address}#{name}" for name in names[:8]) or "a storage with a study"
    raise UsageFault(f"{address} has {len(names)} studies; name one of them: {accepted}")


def _read_trial(study: "Study", trial: "FrozenTrial") -> ResultRow:
    state = trial.state.name
    fault = "" if state in SUCCESSES else describe_state(state)
    values = list(trial.values) if trial.values and not fault else []
    named = dict(zip(study.metric_names, values, strict=False)) if study.metric_names else {}
    goals = [Goal[direction.name] for direction in study.directions]
    unnamed = () if named else tuple(zip(values, goals, strict=False))
    return ResultRow(
        name=f"trial {trial.number} of {study.study_name}",
        parameters={name: _raw(value) for name, value in trial.params.items()},
        metrics=named,
        unnamed=tuple(UnnamedValue(value=value, goal=goal) for value, goal in unnamed),
        fault=fault,
    )


def _raw(value: Any) -> RawValue:
    """Return a value of a categorical distribution, which may be anything, as a text."""
    return value if isinstance(value, bool | int | float | str) else str(value)
