"""Whether a calibration's stack is that of a job's image."""

from typing import Final

from trainshed.planning.scaling.calibration import Calibration

#: Names of stacks, as files of calibrations have them, by the framework of a prebuilt image.
_STACKS: Final = {"TensorFlow": ("tensorflow", "keras"), "PyTorch": ("torch",)}


def misfit(calibration: Calibration, framework: str) -> str:
    """Why it is of another stack, where both are known; empty where it fits."""
    stack, names = calibration.training.stack, _STACKS.get(framework, ())
    if not stack or not names or any(name in stack.lower() for name in names):
        return ""
    return f"it is of {stack}, and the job's image has {framework}"
