"""G14: four hosts behind links, predicted from one host's steps and a probe of a link, and run.

    python -m benchmarks planning-hosts [--mbit 200] [--hosts 4] [--reps 5] [--only torch]

It needs root: every host is a network namespace behind a link of its own (shaped_network.py).

PyTorch's DistributedDataParallel exchanges by gloo's ring and by reducers, TensorFlow's
MultiWorkerMirroredStrategy by its own ring: it has no reducers here.  What computes is a pause on
the way back, as a device's work is, since four hosts share this machine's processors; the steps of
one process and of two, which compute in earnest, are compared on the machine itself.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.harness import Benchmark, Report, at_most
from benchmarks.planning import hosts_tensorflow as tensorflow
from benchmarks.planning.frame import Miss
from benchmarks.reduction.shaped_network import why_not
from benchmarks.reduction.stage import Group, Stage, stage
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Prediction
from trainshed.planning.scaling.training import Training

#: Layers of 4.2 MB, and how long a device would work on one's gradient.
LAYERS: Final = 6
PAUSE_S: Final = 0.08
PARAMETERS: Final = LAYERS * (1024 * 1024 + 1024)
WARM: Final = 2
#: What two processes compute in earnest: layers, samples, steps of each; and what is probed.
WIDE: Final = 3
BATCH: Final = 256
PROBE_MB: Final = 12.6
PARTS: Final = ("torch", "tensorflow", "processes")
#: Goals: of a step, and of the ratio of ring to reducers.
STEP: Final = 0.10
RATIO: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison(Miss):
    """One thing that was predicted and measured, and the largest error."""

    goal: float
    low: float = 0.0
    high: float = 0.0


def measure(args: argparse.Namespace) -> Report:
    """The parts that are named, one after the other."""
    if args.dry:
        args.only = ["processes"]
    elif reason := why_not():
        return Report(left_out={"hosts behind links": reason})
    parts = {
        "torch": lambda: torch_hosts(args.hosts, args.mbit, args.reps),
        "tensorflow": lambda: tensorflow_hosts(args.hosts, args.mbit),
        "processes": lambda: two_processes(args.turns),
    }
    comparisons = [one for name in args.only for one in parts[name]()]
    return Report(
        goals=[
            at_most(f"G14 {one.row}: off by", 100 * one.error, 100 * one.goal, "%")
            for one in comparisons
        ],
        left_out={name: "as asked" for name in PARTS if name not in args.only},
        lines=list(lines_of(comparisons)),
        data={"comparisons": [{**asdict(one), "error": one.error} for one in comparisons]},
    )


def lines_of(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """A line for each."""
    for one in comparisons:
        ends = f"({one.low:.3f} to {one.high:.3f})" if one.high else ""
        values = f"predicted {one.predicted:6.3f} {ends:18} measured {one.measured:6.3f}"
        yield f"{one.row:44} {values}  off {100 * one.error:4.1f} %"


def torch_hosts(hosts: int, mbit: float, reps: int) -> list[Comparison]:
    """A step by gloo's ring, one by reducers, and their ratio."""
    with stage(hosts, hosts, mbit) as where:
        fit = _one_host_and_a_link(where, mbit, reps)
        steps = _steps_of_hosts(where.group(hosts, hosts), reps)
    ring = _predicted(fit, hosts)
    ours = _predicted(fit, hosts, reducers=hosts)
    return [
        _compare_steps(f"PyTorch, {hosts} hosts, ring", ring, steps["gloo"]),
        _compare_steps(f"PyTorch, {hosts} hosts, {hosts} reducers", ours, steps["reduction"]),
        Comparison(
            row=f"PyTorch, {hosts} hosts, ring : reducers",
            predicted=ring.step_s.point / ours.step_s.point,
            measured=steps["gloo"] / steps["reduction"],
            goal=RATIO,
        ),
    ]


def _one_host_and_a_link(where: Stage, mbit: float, reps: int) -> Calibration:
    """Steps of a host that is alone, and the goodput of gloo between two."""
    ask = where.crew.ask
    ask({"do": "train_alone", "layers": LAYERS, "pause_s": PAUSE_S}, to=[0])
    alone = [
        where.crew.together({"do": "step", "backend": "alone"}, to=[0]) for _ in range(reps + WARM)
    ]
    size_mb = 4 * PARAMETERS / 1e6
    probe = where.group(2, 2).measure("probe", size_mb, 3)
    return calibration(
        host=linked(mbit),
        stack="torch gloo",
        size=4.0 * PARAMETERS,
        steps=alone[WARM:],
        link_bytes=1e6 * size_mb / statistics.median(probe.gloo_s),
    )


def _steps_of_hosts(group: Group, reps: int) -> dict[str, float]:
    """Median steps, in turn by one and by the other."""
    members = range(group.workers)
    task = {"do": "train", "cap_mb": None, "layers": LAYERS, "pause_s": PAUSE_S}
    crew = group.stage.crew
    for backend in ("gloo", "reduction"):
        crew.ask({**task, "backend": backend}, to=members)
    seconds: dict[str, list[float]] = {"gloo": [], "reduction": []}
    for _ in range(reps + WARM):
        for backend, samples in seconds.items():
            samples.append(crew.together({"do": "step", "backend": backend}, to=members))
    return {backend: statistics.median(samples[WARM:]) for backend, samples in seconds.items()}


def tensorflow_hosts(hosts: int, mbit: float) -> list[Comparison]:
    """A step of MultiWorkerMirroredStrategy."""
    measured = tensorflow.measured(hosts, mbit)
    fit = calibration(
        host=linked(mbit),
        stack="tensorflow grpc",
        size=measured.gradient_bytes,
        steps=measured.alone_s,
        link_bytes=measured.gradient_bytes / statistics.median(measured.probe_s),
    )
    step = statistics.median(measured.steps_s)
    return [_compare_steps(f"TensorFlow, {hosts} hosts, ring", _predicted(fit, hosts), step)]


def two_processes(turns: int) -> list[Comparison]:
    """Two processes of a thread on this machine, from one."""
    task = {"do": "train", "cap_mb": None, "layers": WIDE, "pause_s": 0.0, "batch": BATCH}
    with stage(2, 1, None) as where:
        group, crew = where.group(2, 1), where.crew
        crew.ask({"do": "train_alone", "layers": WIDE, "pause_s": 0.0, "batch": BATCH})
        crew.ask({**task, "backend": "gloo"})
        seconds: dict[str, list[float]] = {"alone": [], "gloo": []}
        for _ in range(turns):
            for name, ranks in (("alone", [0]), ("gloo", [0, 1])):
                seconds[name].append(crew.together({"do": "step", "backend": name}, to=ranks))
        loopback = group.measure("probe", PROBE_MB, 3)
    inside = 1e6 * PROBE_MB / statistics.median(loopback.gloo_s)
    host = HostKind(accelerator="CPU", per_host=2, inside_bytes=inside)
    fit = calibration(
        host=host,
        stack="torch gloo",
        size=4.0 * WIDE * (1024 + 1) * 1024,
        steps=seconds["alone"][WARM:],
    )
    prediction = predict(fit, Cluster(host=host, accelerators=2, hosts=1))
    assert isinstance(prediction, Prediction), prediction  # noqa: S101 - a benchmark
    two = statistics.median(seconds["gloo"][WARM:])
    return [_compare_steps("PyTorch, this machine, 2 processes", prediction, two)]


def linked(mbit: float) -> HostKind:
    """A host behind a link."""
    return HostKind(accelerator="CPU", network_gbps=mbit / 1000)


def calibration(
    *, host: HostKind, stack: str, size: float, steps: Sequence[float], link_bytes: float = 0.0
) -> Calibration:
    """What one host's steps and a link's goodput say of a training."""
    training = Training(parameters=size / 4, gradient_bytes=size, stack=stack, data="synthetic")
    ordered = sorted(steps)
    runs = [
        Run(
            kind=RunKind.COMPUTE,
            steps=len(ordered),
            step_s=statistics.median(ordered),
            step_s_p10=ordered[0],
            step_s_p90=ordered[-1],
        )
    ]
    if link_bytes:
        runs.append(Run(kind=RunKind.LINK, hosts=2, accelerators=2, link_bytes=link_bytes))
    return calibrated(training, host, runs)


def _predicted(fit: Calibration, hosts: int, *, reducers: int = 0) -> Prediction:
    cluster = Cluster(
        host=fit.host,
        accelerators=hosts,
        hosts=hosts,
        reducers=reducers,
        reducer_gbps=fit.host.network_gbps if reducers else 0.0,
    )
    prediction = predict(fit, cluster)
    assert isinstance(prediction, Prediction), prediction  # noqa: S101 - a benchmark
    return prediction


def _compare_steps(name: str, prediction: Prediction, measured: float) -> Comparison:
    return Comparison(
        row=f"{name}, s a step",
        predicted=prediction.step_s.point,
        measured=measured,
        goal=STEP,
        low=prediction.step_s.low,
        high=prediction.step_s.high,
    )


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"mbit": (200.0, 200.0), "hosts": (4, 2), "reps": (5, 1), "turns": (12, WARM + 1)},
    add_options=lambda parser: parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help="these parts and no others"
    ),
)
