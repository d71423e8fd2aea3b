"""Chooses the interpreter of a local run.

The flag has priority, then TRAINSHED_PYTHON.  Otherwise a local run uses what a server of the same
data directory would use: the environments of its config.toml.  Without these it is Trainshed's own
interpreter.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.launch.context import program_of
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec
from trainshed.service.starts.programs import PYTHON_VARIABLE, interpreter
from trainshed.storage.buckets import data_dir

#: ``trainshed.config.load.FILE``; importing that takes longer than a local run without the file.
_CONFIG: Final = "config.toml"


class PythonChoice(NamedTuple):
    """An interpreter with the reason for it."""

    python: str
    rule: str
    """The setting that chose it, for people."""
    note: str = ""
    """The differences from the Python of the job, as a sentence; empty if there are none."""

    @property
    def sentence(self) -> str:
        """The first line of a local run."""
        return f"The job runs in {self.python} ({self.rule})."


def choose_python(
    spec: JobSpec, python: str | None, data_folder: str | None, environ: Mapping[str, str]
) -> PythonChoice:
    """Choose the interpreter of a job; ``python`` and ``data_folder`` are the flags' values.

    A config.toml that cannot be read chooses nothing, and the rule says so.
    """
    if python or environ.get(PYTHON_VARIABLE):
        rule = "--python" if python else PYTHON_VARIABLE
        return PythonChoice(interpreter(python, environ), rule)
    config = data_dir(data_folder, environ) / _CONFIG
    if not config.is_file():
        alternatives = f"--python, {PYTHON_VARIABLE} or [[environment]] in {config} choose another"
        return PythonChoice(sys.executable, f"the Python of trainshed; {alternatives}")
    try:
        return _choose_by_config(spec, config, environ)
    except UsageFault as fault:
        return PythonChoice(sys.executable, f"the Python of trainshed: {fault}")


def check_python(choice: PythonChoice, environ: Mapping[str, str]) -> None:
    """Refuse an interpreter that cannot be started.  Raises UsageFault with one that can."""
    if shutil.which(choice.python, path=environ.get("PATH")):
        return
    # slow, and only a mistake needs it
    from trainshed.workbench.find_pythons import find_pythons  # noqa: PLC0415 - see above

    pythons = ", ".join(f"{python.version}: {python.path}" for python in find_pythons(environ))
    raise UsageFault(
        f"{choice.rule} must be the path of a Python interpreter, got {choice.python!r} "
        f"(accepted: {pythons})"
    )


def _choose_by_config(spec: JobSpec, config: Path, environ: Mapping[str, str]) -> PythonChoice:
    # few local runs have the file, and these imports are slow
    from trainshed.config import load_settings  # noqa: PLC0415 - see above
    from trainshed.service.starts.images import DEFAULT, Images  # noqa: PLC0415 - see above

    settings = load_settings(config, environ, {})
    images = Images(settings.environments, settings.images, sys.executable)
    primary = program_of(spec, spec.groups[0]) if spec.groups else None
    stand_in = images.stand_in(primary) if primary else None
    names = {environment.name for environment in settings.environments}
    if stand_in and stand_in.environment in names:
        rule = f'[[environment]] "{stand_in.environment}" of {config}'
        return PythonChoice(stand_in.python, rule, stand_in.note)
    if DEFAULT in names:
        default = next(row for row in settings.environments if row.name == DEFAULT)
        return PythonChoice(default.python, f'[[environment]] "{DEFAULT}" of {config}')
    rule = f"the Python of trainshed; no [[environment]] of {config} fits the job"
    return PythonChoice(sys.executable, rule)
