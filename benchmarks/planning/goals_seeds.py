"""Goal G13 of docs/sources/planner.md 11: the code of the release on examples of its sources."""

from benchmarks.harness import at_most
from benchmarks.planning.frame import Data, Line, Outcome
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.curve import ScalingCurve, curve_of
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Prediction
from trainshed.planning.scaling.tables import Point, Series
from trainshed.planning.scaling.training import Training
from trainshed.planning.sizing import Hosts


def alexnet() -> ScalingCurve:
    """Return the curve of AlexNet: speed-ups of 1.7, 3.5 and 6.2 on 2, 4 and 8 GPUs."""
    return curve_of(times({1: 1.0, 2: 1.7, 4: 3.5, 8: 6.2}))


def times(points: dict[int, float]) -> Series:
    """Return a series of speed-ups over one GPU, by the number of accelerators."""
    curve = tuple(Point(accelerators=n, hosts=1, throughput=v) for n, v in points.items())
    return Series(id="speed-ups", points=curve, metric="times one GPU")


def one_hour() -> Prediction:
    """Predict ResNet-50 on 256 P100 from its 29 hours on 8; the source measured about one hour."""
    training = Training(
        model="resnet50",
        parameters=25.56e6,
        largest=2.36e6,
        gradient_bytes=4 * 25.56e6,
        batch_per_accelerator=32,
        data="synthetic",
    )
    host = HostKind(
        accelerator="P100",
        per_host=8,
        inside="nvlink1",
        inside_bytes=80e9,
        network="rdma",
        network_gbps=50,
    )
    step = 29 * 3600 * 256 / (90 * 1_281_167)
    run = Run(kind=RunKind.HOST, accelerators=8, steps=50, step_s=step)
    prediction = predict(
        calibrated(training, host, [run]), Cluster(host=host, accelerators=256, hosts=32)
    )
    assert isinstance(prediction, Prediction)  # noqa: S101 - the table has no line for a refusal
    return prediction


def hours(prediction: Prediction) -> float:
    """Return the hours of 90 epochs of ImageNet at the predicted throughput."""
    return 90 * 1_281_167 / prediction.samples_per_s.point / 3600


def reducers(workers: int) -> int:
    """Return how many reducers of 32 Gbit/s match ``workers`` hosts of 100 Gbit/s."""
    hosts = Hosts(workers=workers, worker_gbps=100.0, total_gbps=workers * 100.0, reducer_gbps=32.0)
    return hosts.sufficient


def seeds(_: Data) -> Outcome:
    """Compute the examples with numbers, a line each; tests cover those with refusals or texts."""
    tpu = curve_of(times({1: 1.0, 1024: 256 / 2.2}))
    lines = [
        _line("AlexNet: worst point of the fit, %", _worst(alexnet()), 6.0),
        _line("29 h on 8: hours on 256, off by", abs(hours(one_hour()) - 1.025), 0.075),
        _line("1,024 TPUs: efficiency, off by", abs(tpu.points[-1].efficiency - 0.1136), 0.005),
        _line("46.5 on 512: share in %, off by", abs(_share() - 1.96), 0.02),
        _line("46.5 on 512: times one on 1,024, off by", abs(_on_1024() - 48.8), 1.5),
        _line("16 reducers, off by", abs(reducers(5) - 16), 0.0),
        _line("25 reducers, off by", abs(reducers(8) - 25), 0.0),
    ]
    return Outcome(lines=lines)


def _share() -> float:
    return 100 * (curve_of(times({1: 1.0, 512: 46.5})).fixed_share or 0.0)


def _on_1024() -> float:
    """Return the speed-up on 1,024 that a plan predicts from 46.5 on 512."""
    host, training = HostKind(accelerator="GPU", per_host=8), Training(batch_per_accelerator=32)
    runs = [
        Run(kind=RunKind.JOB, accelerators=n, hosts=h, steps=1, step_s=32 * n / speedup)
        for n, h, speedup in ((1, 1, 1.0), (512, 64, 46.5))
    ]
    cluster = Cluster(host=host, accelerators=1024, hosts=128)
    prediction = predict(calibrated(training, host, runs), cluster)
    assert isinstance(prediction, Prediction)  # noqa: S101 - the table has no line for a refusal
    return prediction.speedup.point


def _worst(curve: ScalingCurve) -> float:
    return 100 * max(abs(point.error) for point in curve.points)


def _line(name: str, value: float, goal: float) -> Line:
    return Line(name=name, count=1, goals=(at_most("", value, goal, ""),))


GOALS = {"G13": seeds}
