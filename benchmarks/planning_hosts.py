"""G14: four hosts behind links, predicted from one host's steps and a probe of a link, and run.

Usage: ``python benchmarks/planning_hosts.py [--mbit 200] [--hosts 4] [--reps 5] [--format json]``;
as root, since every host is a network namespace behind a link of its own (shaped_network.py).

PyTorch's DistributedDataParallel exchanges by gloo's ring and by reducers, TensorFlow's
MultiWorkerMirroredStrategy by its own ring: it has no reducers here.  What computes is a pause on
the way back, as a device's work is, since four hosts share this machine's processors; the steps of
one process and of two, which compute in earnest, are compared on the machine itself.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import planning_hosts_tensorflow as tensorflow
from planning_goals_scaling import Row
from reduction_stage import Group, Stage, stage
from shaped_network import why_not

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
TURNS: Final = 12
PROBE_MB: Final = 12.6
#: Goals: of a step, and of the ratio of ring to reducers.
STEP: Final = 0.10
RATIO: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Found:
    """One thing that was predicted and measured."""

    name: str
    predicted: float
    measured: float
    goal: float
    low: float = 0.0
    high: float = 0.0

    @property
    def error(self) -> float:
        """As a share of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def met(self) -> bool:
        """Whether it is near enough."""
        return self.error <= self.goal


def main() -> int:
    """Measure, print; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mbit", type=float, default=200.0)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--only", default="torch,tensorflow,processes", help="of these")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 0
    parts = {
        "torch": lambda: torch_hosts(args.hosts, args.mbit, args.reps),
        "tensorflow": lambda: tensorflow_hosts(args.hosts, args.mbit),
        "processes": two_processes,
    }
    if unknown := set(args.only.split(",")) - set(parts):
        parser.error(f"--only {', '.join(unknown)}: of {', '.join(parts)}")
    comparisons = [one for name in args.only.split(",") for one in parts[name]()]
    if args.format == "json":
        print(json.dumps([{**asdict(one), "error": one.error} for one in comparisons], indent=1))
    else:
        show(comparisons)
    return int(not all(one.met for one in comparisons))


def show(comparisons: Sequence[Found]) -> None:
    """A line for each."""
    for one in comparisons:
        ends = f"({one.low:.3f} to {one.high:.3f})" if one.high else ""
        print(
            f"{one.name:44} predicted {one.predicted:6.3f} {ends:18} measured {one.measured:6.3f}"
            f"  off {100 * one.error:4.1f} %  {'met' if one.met else 'MISSED'}"
        )


def rows(reps: int = 5) -> list[Row]:
    """Lines of the planner's report (planning.py); none where links cannot be had."""
    if why_not():
        return []
    comparisons = [*torch_hosts(4, 200.0, reps), *tensorflow_hosts(4, 200.0), *two_processes()]
    return [
        Row(
            goal="G14",
            part=one.name,
            count=reps,
            value=f"{100 * one.error:.1f}",
            wanted=f"<= {100 * one.goal:.0f}",
            met=one.met,
        )
        for one in comparisons
    ]


def torch_hosts(hosts: int, mbit: float, reps: int) -> list[Found]:
    """A step by gloo's ring, one by reducers, and their ratio."""
    with stage(hosts, hosts, mbit) as where:
        fit = _one_host_and_a_link(where, mbit, reps)
        steps = _steps_of_hosts(where.group(hosts, hosts), reps)
    ring = _predicted(fit, hosts)
    ours = _predicted(fit, hosts, reducers=hosts)
    return [
        _compare_steps(f"PyTorch, {hosts} hosts, ring", ring, steps["gloo"]),
        _compare_steps(f"PyTorch, {hosts} hosts, {hosts} reducers", ours, steps["reduction"]),
        Found(
            name=f"PyTorch, {hosts} hosts, ring : reducers",
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


def tensorflow_hosts(hosts: int, mbit: float) -> list[Found]:
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


def two_processes() -> list[Found]:
    """Two processes of a thread on this machine, from one."""
    task = {"do": "train", "cap_mb": None, "layers": WIDE, "pause_s": 0.0, "batch": BATCH}
    with stage(2, 1, None) as where:
        group, crew = where.group(2, 1), where.crew
        crew.ask({"do": "train_alone", "layers": WIDE, "pause_s": 0.0, "batch": BATCH})
        crew.ask({**task, "backend": "gloo"})
        seconds: dict[str, list[float]] = {"alone": [], "gloo": []}
        for _ in range(TURNS):
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


def _compare_steps(name: str, prediction: Prediction, measured: float) -> Found:
    return Found(
        name=f"{name}, s a step",
        predicted=prediction.step_s.point,
        measured=measured,
        goal=STEP,
        low=prediction.step_s.low,
        high=prediction.step_s.high,
    )


if __name__ == "__main__":
    sys.exit(main())
