"""Trainings that were not measured: their size, and what published jobs like them reach.

The step of one accelerator is assumed from the size of the gradient, as published jobs have it.
Only ratios of steps follow from it.  For well-known models the rate of one accelerator is known to
a factor (``RATE_FACTOR``) from published jobs on the same accelerator.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from trainshed.planning.scaling.calibration import STEP_FACTOR, Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.parameters import Parameters, parameters
from trainshed.planning.scaling.training import Strategy, Training, gradient_width

#: Four of five published jobs are at most so many times faster or slower than this module says.
RATE_FACTOR: Final = 1.7
_LEAST_BYTES: Final = 1e6
_UNIT_BYTES: Final = 1e8
#: FLOP of a training step for each parameter and token.
_PER_TOKEN: Final = 6.0
#: The FLOP of an image of 224 x 224, forward, in ResNets; training takes three times as many.
_RESNETS: Final = {
    18: (11.69e6, 3.64e9), 34: (21.80e6, 7.34e9), 50: (25.56e6, 8.2e9),
    101: (44.55e6, 15.6e9), 152: (60.19e6, 23.0e9),
}  # fmt: skip
_BERTS: Final = {"base": 110e6, "large": 336e6}
_GPT2: Final = {"": 124e6, "medium": 355e6, "large": 774e6, "xl": 1.558e9}
_UNITS: Final = {"m": 1e6, "b": 1e9}
#: FLOP/s that published trainings reach on one accelerator (benchmarks/scaling), by precision.
_CONVOLUTIONS: Final[Mapping[str, Mapping[str, float]]] = {
    "K80": {"fp32": 1.3e12},
    "P100": {"fp32": 5.5e12},
    "V100": {"fp32": 8.3e12, "half": 26e12},
    "A100": {"fp32": 20e12, "tf32": 23e12, "half": 39e12},
}
_TRANSFORMERS: Final[Mapping[str, Mapping[str, float]]] = {
    "V100": {"fp32": 11e12, "half": 35e12},
    "A100": {"fp32": 22e12, "tf32": 73e12, "half": 130e12},
    "H100": {"half": 350e12},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model of a family with published trainings."""

    name: str
    parameters: float
    flop: float
    """The FLOP of training with one sample."""
    sample: str
    """What one sample is: ``one image of 224 x 224``."""
    is_transformer: bool = True

    def samples_per_s(self, accelerator: str, precision: str) -> float | None:
        """Return the rate of one accelerator; None if no such job was published."""
        rates = _TRANSFORMERS if self.is_transformer else _CONVOLUTIONS
        words = re.split(r"[^A-Z0-9]+", accelerator.upper())
        by_precision = next((rates[word] for word in words if word in rates), {})
        rate = by_precision.get(precision if precision in {"fp32", "tf32"} else "half")
        return rate / self.flop if rate else None


#: Names that ``known_model`` accepts, for messages.
KNOWN_NAMES: Final = "resnet18 to resnet152, bert-base, bert-large, gpt2 to gpt2-xl, gpt-SIZE"


def known_model(name: str) -> KnownModel | None:
    """Return a model by its usual name, such as ``resnet50`` or ``gpt-1.3b``; None if unknown."""
    word = re.sub(r"[^a-z0-9.]", "", name.lower())
    if (match := re.fullmatch(r"resnet(\d+)", word)) and int(match[1]) in _RESNETS:
        parameters, forward = _RESNETS[int(match[1])]
        return KnownModel(
            name=f"resnet{match[1]}",
            parameters=parameters,
            flop=3 * forward,
            sample="one image of 224 x 224",
            is_transformer=False,
        )
    if (match := re.fullmatch(r"bert(base|large)", word)) is not None:
        return _transformer(f"bert-{match[1]}", _BERTS[match[1]], 128)
    if (match := re.fullmatch(r"gpt2(medium|large|xl|)", word)) is not None:
        return _transformer(f"gpt2-{match[1]}".rstrip("-"), _GPT2[match[1]], 1024)
    if match := re.fullmatch(r"gpt(\d{1,4}(?:\.\d{1,3})?)([mb])", word):
        size = float(match[1]) * _UNITS[match[2]]
        return _transformer(f"gpt-{match[1]}{match[2]}", size, 2048) if size else None
    return None


def _transformer(name: str, parameters: float, tokens: int) -> KnownModel:
    return KnownModel(
        name=name,
        parameters=parameters,
        flop=_PER_TOKEN * parameters * tokens,
        sample=f"{tokens:,} tokens",
    )


def assumed_training(size: float, precision: str, strategy: Strategy) -> Training:
    """Return a training of ``size`` parameters, with a batch of one sample."""
    return Training(
        parameters=size,
        gradient_bytes=size * gradient_width(precision, strategy),
        precision=precision,
        strategy=strategy,
    )


def published_calibration(
    training: Training,
    host: HostKind,
    model: KnownModel | None = None,
    constants: Parameters | None = None,
) -> Calibration:
    """Return the calibration that published jobs suggest for an ``assumed_training``.

    Its one run has the step of published jobs of that size.  Where the rate of ``model`` is not
    known, a step has one sample: nothing but ratios may be used.
    """
    constants = constants or parameters()
    step_s, factor = usual_step_s(training.gradient_bytes, constants), 1.01 * STEP_FACTOR
    rate = model.samples_per_s(host.accelerator, training.precision) if model else None
    if model and rate:
        batch, factor = 2.0 ** max(0, round(math.log2(rate * step_s))), RATE_FACTOR
        step_s = batch / rate
        training = replace(training, model=model.name, batch_per_accelerator=batch)
    run = Run(
        kind=RunKind.PUBLISHED,
        steps=1,
        step_s=step_s,
        step_s_p10=step_s / factor,
        step_s_p90=step_s * factor,
    )
    return calibrated(training, host, [run], constants=constants)


def usual_step_s(gradient_bytes: float, constants: Parameters) -> float:
    """Return the seconds of a step of one accelerator in published jobs with such gradients."""
    size = max(gradient_bytes, _LEAST_BYTES) / _UNIT_BYTES
    return constants.unprinted["step_s"] * math.pow(size, constants.unprinted["power"])
