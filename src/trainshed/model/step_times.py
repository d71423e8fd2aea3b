"""The times of a replica's steps, from a file that the trainer library writes once a second.

A trainer wrote the file, so every value is checked: a missing or negative value, or one that is not
a number, makes the file invalid, and a name keeps only its printable characters.
``trainshed_trainer.steps`` writes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: The kind of a job's event with the measured steps of an attempt.
STEPS: Final = "STEPS"
#: The kind of event with the prediction of the steps and the result.
OUTCOME: Final = "OUTCOME"
#: The only version of the format.
VERSION: Final = 1
#: The number of single steps in the report: this many first and this many last ones.
KEPT: Final = 256
#: The largest accepted number, for counts and for durations in seconds.
_MOST: Final = 1e15
_NAME_MAX: Final = 200


@dataclass(frozen=True)
class StepTimes:
    """The steps of one replica so far."""

    steps: int
    first_s: tuple[float, ...] = ()
    """The durations of the first steps in seconds, including the warm-up."""
    recent_s: tuple[float, ...] = ()
    """The durations of the last steps; the first steps again while there are few."""
    recent_waits_s: tuple[float, ...] = ()
    """The time that each recent step waited for its input."""
    first_waits_s: tuple[float, ...] = ()
    samples: float = 0.0
    """The number of all samples that were trained on; 0 if unknown."""
    first_at: float = 0.0
    """The time of the first report, in seconds since 1970."""
    last_at: float = 0.0
    parameters: float = 0.0
    """The number of parameters of the model; 0 if no hook has counted them."""
    largest: float = 0.0
    """The number of parameters of the model's largest variable; 0 if unknown."""
    gradient_bytes: float = 0.0
    """The size of one step's gradients, in bytes; 0 if unknown."""
    stack: str = ""
    """The name and version of the training framework; empty if unknown."""
    device: str = ""
    """``cpu`` or ``cuda``: where the parameters are; empty if unknown."""
    micro_batches: int = 0
    """The micro batches of a step (gradient accumulation); 0 if no hook has counted them."""
    state_bytes: float = 0.0
    """The bytes of parameters, gradients and the optimizer's state; 0 if unknown."""
    host_bytes: float = 0.0
    """The most memory of the host that the process had in use; 0 if unknown."""
    device_bytes: float = 0.0
    """The most memory of its device that the process had in use; 0 if unknown."""
    first_step: int | None = None
    """The job's number of the first step that was reported; None if numbers are unknown."""
    last_step: int | None = None
    numbered: int = 0
    """By how much the numbers ascended, without the times that they began again."""
    counted: bool = False
    """Whether the numbers are those of the framework's optimizer, and not of the program."""
    checkpoint_step: int | None = None
    """The step of the newest whole checkpoint, by the program; None if unknown."""
    checkpoint_at: float = 0.0
    """When it was complete, in seconds since 1970; 0 if unknown."""
    stalled_s: float = 0.0
    """By how many seconds steps over ten times the median exceeded it."""
    saving_s: float = 0.0
    """The seconds of saving checkpoints; 0 if the trainer does not report them."""


def step_times_of(document: object) -> StepTimes:
    """Read the JSON of the file.  Raises ValueError for any other document."""
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION} in a report of steps")
    model = document.get("model", {})
    if not isinstance(model, dict):
        raise ValueError("model must be an object")  # noqa: TRY004 - a file's
    first, recent = _pairs(document, "first"), _pairs(document, "recent")
    return StepTimes(
        steps=int(_number(document, "steps")),
        first_s=tuple(step_s for step_s, _ in first),
        first_waits_s=tuple(wait_s for _, wait_s in first),
        recent_s=tuple(step_s for step_s, _ in recent),
        recent_waits_s=tuple(wait_s for _, wait_s in recent),
        samples=_number(document, "samples"),
        first_at=_number(document, "first_at"),
        last_at=_number(document, "last_at"),
        parameters=_number(model, "parameters"),
        largest=_number(model, "largest"),
        gradient_bytes=_number(model, "gradient_bytes"),
        stack=_drop_unprintable(str(model.get("stack") or "")[:_NAME_MAX]),
        device=_drop_unprintable(str(model.get("device") or "")[:_NAME_MAX]),
        micro_batches=int(_number(document, "micro_batches")),
        state_bytes=_number(model, "state_bytes"),
        host_bytes=_number(document, "host_bytes"),
        device_bytes=_number(document, "device_bytes"),
        first_step=_step_number(document, "first_step"),
        last_step=_step_number(document, "last_step"),
        numbered=int(_number(document, "numbered")),
        counted=document.get("counted") is True,
        checkpoint_step=_step_number(document, "checkpoint_step"),
        checkpoint_at=_number(document, "checkpoint_at"),
        stalled_s=_number(document, "stalled_s"),
        saving_s=_number(document, "saving_s"),
    )


def _drop_unprintable(text: str) -> str:
    """Drop surrogates and control characters, which would break a file with the name."""
    return "".join(character for character in text if character.isprintable())


def _pairs(document: Mapping[str, Any], name: str) -> list[tuple[float, float]]:
    entries = document.get(name)
    if not isinstance(entries, list) or len(entries) > KEPT:
        raise ValueError(f"{name} must be a list of up to {KEPT} steps")
    return [_pair(name, entry) for entry in entries]


def _pair(name: str, entry: object) -> tuple[float, float]:
    if not isinstance(entry, list) or len(entry) != 2:  # noqa: PLR2004 - a step and its wait
        raise ValueError(f"each entry of {name} must be a step time and its wait")
    field = f"each time in {name}"
    step, wait_s = (_number({field: seconds}, field) for seconds in entry)
    return step, min(step, wait_s)


def _step_number(table: Mapping[str, Any], name: str) -> int | None:
    return None if table.get(name) is None else int(_number(table, name))


def _number(table: Mapping[str, Any], name: str) -> float:
    """Return a finite number that is not negative; 0 if it is absent."""
    number = table.get(name, 0)
    if isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number <= _MOST:
        return float(number)  # NaN is not between them
    raise ValueError(f"{name} must be a number from 0 to {_MOST:g}")
