"""Compares measured rates and prices of CPU and GPUs, to decide if a GPU is worth its price."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.planning.scaling.prediction import Interval

#: The least gain of a GPU that is worth its price: below it, the GPU mostly waits.
WORTH_IT: Final = 1.5
#: The width of an 80 % interval over the width of a 95 % interval.
_OF_95: Final = 1.2816 / 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The measured speed of one or more devices of one kind."""

    name: str
    count: int
    seconds: float
    """The seconds of a step, or of the steps that the program timed itself."""
    samples: float = 0.0
    """Samples of one device in that time; 0 if unknown."""
    uncertainty: float | None = None
    """Half the 95 % interval of the seconds, as a share of them; None if unknown."""

    def times(self, base: "Rate") -> Interval:
        """Return how many times as fast as ``base`` it is, in samples or else in steps."""
        samples = self.samples / base.samples if self.samples and base.samples else 1.0
        point = self.count * samples * base.seconds / (base.count * self.seconds)
        half = math.hypot(self.uncertainty or 0.0, base.uncertainty or 0.0) * _OF_95
        return Interval(low=point * math.exp(-half), point=point, high=point * math.exp(half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of an hour of a machine without GPUs, and of one with some."""

    cpu: float
    one_gpu: float

    def of(self, count: int) -> float:
        """Return the price of an hour with ``count`` GPUs: each costs as much as the first adds."""
        return self.cpu + count * max(0.0, self.one_gpu - self.cpu)


def decision(cpu: Rate, gpus: Sequence[Rate], prices: Prices | None = None) -> Iterator[str]:
    """Yield the conclusions, a sentence each."""
    if not gpus:
        yield (
            "This machine has no GPU, so this says what the CPU needs and nothing about a GPU. "
            "Run the same command on a machine that has one before paying for it."
        )
        return
    one, *more = gpus
    gain = one.times(cpu)
    if gain.point < WORTH_IT:
        yield (
            f"A GPU is not worth its price: it is {_times(gain, one, cpu)} times as fast as the "
            f"CPU, and a GPU machine that is worth it is at least {WORTH_IT:g} times as fast."
        )
    else:
        yield (
            "A GPU is worth its price if its machine costs less than "
            f"{_times(gain, one, cpu)} times as much: it is that many times as fast."
        )
    for several in more:
        yield _several(several, one, cpu)
    if prices:
        yield from _compare_prices(cpu, gpus, prices)


def _times(gain: Interval, one: Rate, base: Rate) -> str:
    if None in {one.uncertainty, base.uncertainty}:
        return f"{gain.point:.2g}"
    return f"{gain.point:.3g} ({gain.low:.3g} to {gain.high:.3g})"


def _several(several: Rate, one: Rate, cpu: Rate) -> str:
    return (
        f"{several.count} GPUs are {_times(several.times(one), several, one)} times as fast as "
        f"one, and worth their price if their machine costs less than "
        f"{_times(several.times(cpu), several, cpu)} times as much as the CPU's."
    )


def _compare_prices(cpu: Rate, gpus: Sequence[Rate], prices: Prices) -> Iterator[str]:
    """Yield the price of a sample against the CPU's, for each measured count."""
    best = 0
    least = 1.0
    for rate in gpus:
        gain, price = rate.times(cpu), prices.of(rate.count) / prices.cpu
        share = gain.inverse(price)
        yield (
            f"With {rate.count}: {price:.3g} times the price per hour and {gain.point:.3g} times "
            f"the samples, so a sample costs {share.point:.3g} ({share.low:.3g} to "
            f"{share.high:.3g}) times the CPU's. It breaks even at {gain.point * prices.cpu:.4g} "
            "per hour."
        )
        if share.high < least:
            best, least = rate.count, share.point
        elif share.low < 1.0 < share.high:
            yield "That difference is within the uncertainty."
    name = "the CPU is" if not best else "one GPU is" if best == 1 else f"{best} GPUs are"
    yield f"By these prices {name} cheapest."
