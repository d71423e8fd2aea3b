"""The goals of the Reduction Server, each a function of a stage: what is measured, and the verdict.

Goals are ratios to gloo in the same run, and shares of what a link carries; never milliseconds.
Sizes and repetitions are such that all of it takes a minute and a half on a machine left alone.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from benchmarks.harness import Goal, at_least, at_most
from benchmarks.reduction.stage import BACKENDS, Group, Setting, Stage
from trainshed_trainer.reduction.reducer import RING_MAX

#: An even number: A B, B A.
REPS: Final = 2
#: Turns of each backend with small tensors, those of a first look, and the all-reduces of a turn.
TURNS, TURNS_FEW, COUNT = 24, 8, 3
#: DDP's bucket sizes that are swept; 25 is what torch chooses.
CAPS_MB: Final = (8, 25, 64)
DDP_LAYERS: Final = 8
LAYER_MB: Final = 1024 * 1025 * 4 / 1e6
PAUSE_S: Final = 0.015
#: A reducer before it has any ring (docs/sources/reduction.md 8, G9), MB.
BARE_MB: Final = 35.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The measurements of a part, and its goals."""

    settings: Sequence[Setting]
    goals: Sequence[Goal]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The function that measures a part, and the rate of its links; None for loopback."""

    rate_mbit: float | None
    measure: Callable[[Stage], Outcome]
    #: Held even while others load the machine (docs/sources/reduction.md 8).
    steady: bool = False


def faster(setting: Setting, least: float) -> Goal:
    """Return the goal for a setting's ratio to gloo."""
    possible = f"{setting.theory:.2f} is possible"
    return at_least(f"{setting.name}: over gloo's ring", setting.ratio, least, "times", possible)


def of_wire(setting: Setting, least: float) -> Goal:
    """Return the goal for a setting's share of the rate of its links."""
    return at_least(f"{setting.name}: of the wire's limit", setting.eff, least, "")


def four(stage: Stage) -> Outcome:
    """As many reducers as workers: 16 and 64 MB, and what a reducer needs for each."""
    group = stage.group(4, 4)
    small = beside(group, 16)
    small_mb = group.serving.peak_mb()
    large = beside(group, 64)
    large_mb = group.serving.peak_mb()
    most_mb = BARE_MB + 1.1 * (4 + 2) * RING_MAX / 1e6
    goals = [
        faster(small, 1.30),
        faster(large, 1.40),
        of_wire(large, 0.93),
        at_most("peak memory of a reducer, 64 MB", large_mb, most_mb, "MB"),
        at_most("the same, over its peak with 16 MB", large_mb / small_mb, 1.05, "times"),
    ]
    return Outcome(settings=[small, large], goals=goals)


def sixteen(stage: Stage) -> Outcome:
    """A bf16 bucket beside the fp32 bucket of as many elements."""
    group = stage.group(4, 4)
    dtypes = ("FLOAT32", "BFLOAT16")
    seconds: dict[str, list[float]] = {dtype: [] for dtype in dtypes}
    group.checked("reduction", 2, "BFLOAT16")
    for turn in range(REPS):
        for dtype in dtypes[:: -1 if turn % 2 else 1]:
            seconds[dtype].append(group.checked("reduction", 24, dtype))
    whole, half = (statistics.median(seconds[dtype]) for dtype in dtypes)
    goal = at_most("bf16 over fp32, 6 million elements", half / whole, 0.56, "of its time")
    return Outcome(settings=[], goals=[goal])


def ratio(stage: Stage, *, workers: int, pool: int, size_mb: float, least: float) -> Outcome:
    """Measure one setting whose only goal is its ratio to gloo."""
    setting = beside(stage.group(workers, pool), size_mb)
    return Outcome(settings=[setting], goals=[faster(setting, least)])


def beside(group: Group, size_mb: float, reps: int = REPS) -> Setting:
    """One all-reduce beside gloo's, under a name that says it all."""
    rate_mbit = group.stage.net.rate_mbit
    where = "loopback" if rate_mbit is None else f"{rate_mbit:g} Mbit/s"
    name = f"N={group.workers} R={len(group.serving.addresses)}, {size_mb:g} MB, {where}"
    return group.measure(name, size_mb, reps)


def few(stage: Stage) -> Outcome:
    """Measure fewer reducers than workers: the workers then sum a share themselves."""
    parts = [
        ratio(stage, workers=4, pool=2, size_mb=24, least=1.15),
        ratio(stage, workers=4, pool=1, size_mb=16, least=1.0),
    ]
    return Outcome(
        settings=[setting for part in parts for setting in part.settings],
        goals=[goal for part in parts for goal in part.goals],
    )


def loopback(stage: Stage) -> Outcome:
    """Measure one host, where reducers only cost time, and check that the route avoids them."""
    always = beside(stage.group(4, 4), 64, REPS)
    routed = beside(stage.group(4, 4, route="measured"), 64, REPS)
    settings = [
        replace(always, name=f"{always.name}, by reducers"),
        replace(routed, name=f"{routed.name}, as routed"),
    ]
    name = f"{settings[1].name}: over gloo"
    return Outcome(settings=settings, goals=[at_least(name, routed.ratio, 0.85, "times")])


def small(stage: Stage) -> Outcome:
    """Measure small tensors, which take the faster route."""
    direct = _smalls(stage.group(4, 4, route="always"), TURNS_FEW)
    routed = _smalls(stage.group(4, 4, route="measured"), TURNS)
    goals = []
    for always, chosen in zip(direct, routed, strict=True):
        name = chosen.name
        goals += [at_most(f"{name}: over gloo's time", 1 / chosen.ratio, 1.05, "times")]
        if always.ratio > 1.2:
            gained = f"{name}: faster, as reducers are"
            goals += [at_least(gained, chosen.ratio, 1.05, "times gloo")]
    return Outcome(settings=routed, goals=goals)


def _smalls(group: Group, turns: int) -> list[Setting]:
    sizes_kb = (4, 64, 256)
    return [
        group.measure_small(f"N=4 R=4, {size} KB, loopback", size / 1e3, turns, COUNT)
        for size in sizes_kb
    ]


def ddp(stage: Stage) -> Outcome:
    """Measure training steps that wait for links, with buckets of several sizes."""
    group = stage.group(4, 4)
    settings = [_step(group, cap_mb) for cap_mb in CAPS_MB]
    best = min(settings, key=lambda setting: statistics.median(setting.ours_s))
    goals = [at_least(f"{best.name}, the fastest", best.ratio, 1.3, "times gloo")]
    return Outcome(settings=settings, goals=goals)


def _step(group: Group, cap_mb: int) -> Setting:
    """A training with each backend: one step that settles the buckets, and one that counts."""
    ask, members = group.stage.crew.ask, range(group.workers)
    seconds: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for backend in BACKENDS:
        request = {"do": "train", "backend": backend, "cap_mb": cap_mb}
        ask({**request, "layers": DDP_LAYERS, "pause_s": PAUSE_S}, to=members)
    for _ in range(2):
        for backend in BACKENDS:
            step = {"do": "step", "backend": backend}
            seconds[backend].append(group.stage.crew.together(step, to=members))
    if not all(answer["right"] for answer in ask({"do": "agree"}, to=members)):
        raise RuntimeError("the gradients of both backends differ by more than rounding")
    counted = {backend: times[1:] for backend, times in seconds.items()}
    return group.setting(f"DDP, buckets of {cap_mb} MB", DDP_LAYERS * LAYER_MB, counted)


#: In the order in which they are measured: a change of rate forms new groups.
PARTS: Final[Mapping[str, Part]] = {
    "four": Part(rate_mbit=200, measure=four, steady=True),
    "sixteen": Part(rate_mbit=200, measure=sixteen),
    "two": Part(
        rate_mbit=200,
        measure=partial(ratio, workers=2, pool=2, size_mb=16, least=0.93),
        steady=True,
    ),
    "few": Part(rate_mbit=200, measure=few),
    "fast": Part(rate_mbit=500, measure=partial(ratio, workers=4, pool=4, size_mb=64, least=1.40)),
    "ddp": Part(rate_mbit=500, measure=ddp),
    "eight": Part(rate_mbit=100, measure=partial(ratio, workers=8, pool=8, size_mb=16, least=1.55)),
    "loopback": Part(rate_mbit=None, measure=loopback),
    "small": Part(rate_mbit=None, measure=small),
}
