"""Checks that a calibration fits a job's module, framework and machines."""

from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.job import JobSpec
from trainshed.planning.planned_jobs import trainers_of
from trainshed.planning.scaling.calibration import Calibration

#: Names of stacks, as files of calibrations have them, by the framework of a prebuilt image.
_STACKS: Final = {"TensorFlow": ("tensorflow", "keras"), "PyTorch": ("torch",)}
#: The option of an interpreter before the name of a module.
_MODULE: Final = "-m"


def misfit(calibration: Calibration, framework: str) -> str:
    """Return why the stack differs from the job's image; empty if it may be the same."""
    stack, names = calibration.training.stack, _STACKS.get(framework, ())
    if not stack or not names or any(name in stack.lower() for name in names):
        return ""
    return f"it is for {stack}, but the job's image has {framework}"


def module_of(spec: JobSpec) -> str:
    """Return the module that a job's trainers run; empty if no field names one."""
    group = next(iter(trainers_of(spec)), None)
    if group is None or group.program is None:
        return ""
    words = (*group.program.command, *group.program.args)
    words_after_flag = words[words.index(_MODULE) + 1 :] if _MODULE in words else ()
    return group.program.module or next(iter(words_after_flag), "")


def other_module(calibration: Calibration, module: str) -> str:
    """Return why the module differs; empty if one is unknown, or they are the same."""
    measured = calibration.training.model
    if not measured or not module or _called(measured, module) == _called(module, measured):
        return ""
    return f"it is for {measured}, but the job runs {module}"


def _called(name: str, other_name: str) -> str:
    """Return the name for a comparison: only the last part, if one of the names is a script."""
    has_script = name.endswith(".py") or other_name.endswith(".py")
    return name.removesuffix(".py").rpartition(".")[2] if has_script else name


def other_training(calibration: Calibration, spec: JobSpec, steps: Mapping[str, Any]) -> str:
    """Return why a finished job differs in training or machines; empty if it fits.

    ``steps`` is the job's report of its steps, which names its stack.
    """
    if why := other_module(calibration, module_of(spec)):
        return why
    measured, ran = calibration.training.stack, str(steps.get("stack") or "")
    if measured and ran and measured != ran:
        return f"it is for {measured}, but the job ran {ran}"
    group = next(iter(trainers_of(spec)), None)
    machine, job_machine = (
        calibration.host.machine_type,
        (group.machine_type if group else "") or "",
    )
    if machine and job_machine and machine != job_machine:
        return f"it is for {machine}, but the job ran on {job_machine}"
    return ""
