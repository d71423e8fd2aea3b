"""Measures processor time and memory to judge a request body, for the most expensive shapes.

    python -m benchmarks bodies [--megabytes 8]

Each shape is one document with the largest number of values that the server reads.  Long texts
give the document the size of ``--megabytes``, so that no body is refused for its size alone.
``RAW`` are bodies that are refused before.  The service treats each body as a create: it reads,
judges, stores and answers it.  The time is processor time.  The memory is that of Python objects,
at the peak and after the answer.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Benchmark, Json, Report, at_most
from trainshed.api.documents import json_response, read_document, refusal_response
from trainshed.model.json_reader import VALUES_MAX
from trainshed.model.refusals import Refusal
from trainshed.model.resource_names import ProjectId
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.starts.images import ImageMapping, Images
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

CPU_S_MAX: Final = 2.0
PEAK_MB_MAX: Final = 100.0
LEFT_MB_MAX: Final = 2.0
RATIO_MAX: Final = 2.5
ANSWER_BYTES_MAX: Final = 64 << 10
#: The shortest time, in seconds, for which a ratio has a meaning.
LEAST_S: Final = 0.01
#: The number of measurements in which a ratio must be too large, to count as too large.
TRIES: Final = 10

#: Returns a document with a number of items, and a filler in the texts of each.
Shape = Callable[[int, str], Json]

ITEMS: Final = range


def pool(**spec: Any) -> Json:
    """Return a valid worker pool."""
    return {
        "containerSpec": {"imageUri": "REG/p/img:1", **spec},
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
    }


def custom(*pools: Any, **fields: Any) -> Json:
    """Return a CustomJob."""
    return {"displayName": "x", "jobSpec": {"workerPoolSpecs": list(pools or [pool()])}, **fields}


def study(*parameters: Any, metrics: Any = ({"metricId": "a", "goal": "MAXIMIZE"},)) -> Json:
    """Return a HyperparameterTuningJob."""
    return {
        "displayName": "x",
        "maxTrialCount": 3,
        "parallelTrialCount": 1,
        "studySpec": {"metrics": list(metrics), "parameters": list(parameters)},
        "trialJobSpec": custom()["jobSpec"],
    }


def double(name: str, least: float = 0) -> Json:
    """Return a parameter with bounds."""
    return {"parameterId": name, "doubleValueSpec": {"minValue": least, "maxValue": 1}}


def categorical(name: str, values: list[str], *conditions: Json) -> Json:
    """Return a parameter with values and conditional parameters."""
    parameter: Json = {"parameterId": name, "categoricalValueSpec": {"values": values}}
    return {**parameter, "conditionalParameterSpecs": list(conditions)} if conditions else parameter


def under(values: list[str], parameter: Json) -> Json:
    """Return a condition: a parameter that exists only for some values of its parent."""
    return {"parentCategoricalValues": {"values": values}, "parameterSpec": parameter}


def nested(parameter: Json, levels: int) -> Json:
    """Return a parameter that has ``levels`` parents, one inside the other."""
    for _ in range(levels):
        parameter = categorical("p", ["x"], under(["x"], parameter))
    return parameter


def _keys(stem: str) -> Shape:
    return lambda n, text: custom(**{f"{stem}{i}{text[:900]}": 1 for i in ITEMS(n)})


def _labels(stem: str) -> Shape:
    return lambda n, text: custom(labels={f"{stem}{i}{text[:900]}": "v" for i in ITEMS(n)})


def _discrete(n: int, text: str) -> Json:
    values: Json = {"parentDiscreteValues": {"values": [i + 0.5 for i in ITEMS(n // 2)]}}
    parameter: Json = {"parameterId": f"a{text}", "discreteValueSpec": {"values": [*ITEMS(n // 2)]}}
    return study(
        {**parameter, "conditionalParameterSpecs": [{**values, "parameterSpec": double("b")}]}
    )


def _same_name(levels: int) -> Shape:
    """Return a shape that defines one name under each value of the parent, which is allowed."""

    def shape(n: int, text: str) -> Json:
        values = [f"v{i}{text}" for i in ITEMS(n)]
        below = (under([value], double("b")) for value in values)
        return study(nested(categorical("a", values, *below), levels))

    return shape


SHAPES: Final[Mapping[str, Shape]] = {
    "unknown keys": _keys("k"),
    "keys like others": _keys("jobSpe"),
    "labels": _labels("k"),
    "malformed labels": _labels("K"),
    "pools": lambda n, text: custom(*(pool(args=[text]) for _ in ITEMS(n))),
    "pools that are numbers": lambda n, text: custom(*[1] * n, note=text),
    "pools that are empty": lambda n, text: custom(*[{}] * n, note=text),
    "arguments": lambda n, text: custom(pool(args=[f"{i}{text}" for i in ITEMS(n)])),
    "arguments with names of buckets": lambda n, text: custom(
        pool(args=[f"gs://b{i}/{text}" for i in ITEMS(n)])
    ),
    "arguments that are objects": lambda n, text: custom(pool(args=[{}] * n), note=text),
    "variables": lambda n, text: custom(
        pool(env=[{"name": f"A{i}", "value": text} for i in ITEMS(n)])
    ),
    "malformed variables": lambda n, text: custom(
        pool(env=[{"name": f"1{i}{text}"} for i in ITEMS(n)])
    ),
    "parameters": lambda n, text: study(*(double(f"a{i}{text}") for i in ITEMS(n))),
    "parameters of one name": lambda n, text: study(*(double(f"a{text}", 2) for _ in ITEMS(n))),
    "metrics": lambda n, text: study(
        double("a"), metrics=[{"metricId": f"a{i}{text}"} for i in ITEMS(n)]
    ),
    "metrics of one name": lambda n, text: study(
        double("a"), metrics=[{"metricId": f"a{text}"} for _ in ITEMS(n)]
    ),
    "categories": lambda n, text: study(categorical("a", [f"v{i}{text}" for i in ITEMS(n)])),
    "categories given twice": lambda n, text: study(
        categorical("a", [f"v{i // 2}{text}" for i in ITEMS(n)])
    ),
    "discrete values under others": _discrete,
    "a name under each value": _same_name(0),
    "a name under each value, deep": _same_name(20),
    "conditions without a value": lambda n, text: study(
        categorical(f"a{text}", ["x"], under([f"y{i}" for i in ITEMS(n)], double("b")))
    ),
    "deep values of another kind": lambda n, text: study(
        nested(categorical(f"a{text}", [1] * n), 28)  # type: ignore[list-item]  # it is wrong
    ),
    "free JSON": lambda n, text: {
        "displayName": "x",
        "trainingTaskInputs": {"workerPoolSpecs": [pool()], "more": [text, *ITEMS(n)]},
        "trainingTaskDefinition": "custom_task_1.0.0.yaml",
    },
    "one long argument": lambda n, text: custom(pool(args=[f"{n}", text])),
    "one long argument with an emoji": lambda n, text: custom(pool(args=[f"\U0001f600{n}{text}"])),
}

#: Functions that return a body of a size in bytes, which is refused before it is judged.
RAW: Final[Mapping[str, Callable[[int], bytes]]] = {
    "empty lists": lambda size: b'{"a":[' + b"[]," * (size // 3) + b"1]}",
    "empty objects": lambda size: b'{"a":[' + b"{}," * (size // 3) + b"1]}",
    "open lists": lambda size: b"[" * size,
    "texts without end": lambda size: b'{"a":' + b'"",' * (size // 3),
    "texts with commas": lambda size: b'{"a":["' + b",[{" * (size // 3) + b'"]',
    "backslashes": lambda size: b'{"a":"' + b"\\\\" * (size // 2),
    "one number": lambda size: b'{"a":' + b"1" * size + b"}",
    "one fraction": lambda size: b'{"a":0.' + b"1" * size + b"}",
    "one name": lambda size: b'{"' + b"a" * size + b'":1}',
    "blanks": lambda size: b'{"a":1' + b" " * size + b"x}",
    "half characters": lambda size: b'{"a":"' + b"\\ud800" * (size // 6) + b'"}',
}

EXACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def written(document: Json) -> bytes:
    """Encode a document as a client sends it."""
    return EXACT.encode(document).encode()


def values_in(body: bytes) -> int:
    """Count the values of a body as the reader does; its texts must have no commas or brackets."""
    return sum(body.count(sign) for sign in (b",", b"[", b"{"))


def items_of(shape: Shape, values: int = VALUES_MAX - 500) -> int:
    """Return the number of items with which a document of a shape has about ``values`` values."""
    few, many = (values_in(written(shape(n, ""))) for n in (100, 200))
    return values * 100 // max(many - few, 1) if many > few else 1


def body_of(shape: Shape, items: int, size: int) -> bytes:
    """Make a body of ``items`` items and about ``size`` bytes."""
    bare, with_one = (len(written(shape(items, text))) for text in ("", "x"))
    return written(shape(items, "x" * max(0, (size - bare) // max(with_one - bare, 1))))


@dataclass(frozen=True, slots=True)
class Way:
    """Passes bodies to the service, as the API does."""

    jobs: JobService

    def take(self, body: bytes) -> int:
        """Judge a body, and store its job if it is valid; return the size of the answer."""
        try:
            document = read_document(body, "application/json")
            tuning = "studySpec" in document
            kind = JobKind.TUNING_JOB if tuning else JobKind.CUSTOM_JOB
            self.jobs.create(kind, ProjectId("demo"), "us-central1", document, creator="ann")
        except Refusal as refusal:
            return len(refusal_response(refusal).body)
        return len(json_response({}).body)


@contextmanager
def way(folder: str) -> Iterator[Way]:
    """Open the service with a new database in a folder."""
    mapping = ImageMapping(environment="default", image="REG/*", entrypoint=("true",))
    rules = SubmitRules(images=Images((), (mapping,), sys.executable))
    store = open_store(f"sqlite:///{Path(folder) / 'bodies.db'}")
    try:
        service = Way(JobService(store, rules, lambda: None))
        service.take(written(custom()))  # load modules and caches before measuring
        service.take(written(study(double("a"))))
        yield service
    finally:
        store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one shape; memory is that of Python objects."""

    name: str
    size: int
    half_s: float
    whole_s: float
    peak_mb: float
    left_mb: float
    answer_bytes: int

    @property
    def ratio(self) -> float:
        """The time of the body divided by the time of a body with half the size and items."""
        return self.whole_s / max(self.half_s, LEAST_S)


def times(handler: Callable[[bytes], object], half: bytes, whole: bytes) -> tuple[float, float]:
    """Measure the processor time of both bodies, in seconds.

    Repeat the measurement if the ratio is too large: other programs may be the reason.
    """
    for _ in range(TRIES):
        durations = _once_s(handler, half), _once_s(handler, whole)
        if durations[1] <= RATIO_MAX * max(durations[0], LEAST_S):
            break
    return durations


def _once_s(handler: Callable[[bytes], object], body: bytes) -> float:
    began = time.process_time()
    handler(body)
    return time.process_time() - began


def memory_mb(handler: Callable[[bytes], object], body: bytes) -> tuple[float, float]:
    """Return the peak memory of a body without its own bytes, and the memory never freed, in MB."""
    gc.collect()
    tracemalloc.start()
    try:
        handler(body)
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return peak / 1e6, left / 1e6


def bodies(size: int, values: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield for each shape its name, a body of half the size, and one of the full size."""
    for name, shape in SHAPES.items():
        items = items_of(shape, values)
        yield name, body_of(shape, items // 2 or 1, size // 2), body_of(shape, items, size)
    for name, raw in RAW.items():
        yield name, raw(size // 2), raw(size)


def measured(way: Way, name: str, half: bytes, whole: bytes) -> Cost:
    """Measure the cost of a body."""
    peak_mb, left_mb = memory_mb(way.take, whole)
    half_s, whole_s = times(way.take, half, whole)
    return Cost(
        name=name,
        size=len(whole),
        half_s=half_s,
        whole_s=whole_s,
        peak_mb=peak_mb + len(whole) / 1e6,
        left_mb=left_mb,
        answer_bytes=way.take(whole),
    )


def measure(args: argparse.Namespace) -> Report:
    """Measure every shape; compare the highest cost of each kind with its goal."""
    size = int(args.megabytes * 1e6)
    with tempfile.TemporaryDirectory() as folder, way(folder) as service:
        costs = [measured(service, *body) for body in bodies(size, args.values)]
    limits = (
        ("processor time", "whole_s", CPU_S_MAX, "s"),
        ("peak memory", "peak_mb", PEAK_MB_MAX, "MB"),
        ("memory that is not given back", "left_mb", LEFT_MB_MAX, "MB"),
        ("answer", "answer_bytes", ANSWER_BYTES_MAX, "bytes"),
        ("twice the body over the body", "ratio", RATIO_MAX, "times"),
    )
    worst = {field: max(costs, key=attrgetter(field)) for _, field, *_ in limits}
    return Report(
        goals=[
            at_most(
                f"{name}, worst shape", getattr(worst[field], field), limit, unit, worst[field].name
            )
            for name, field, limit, unit in limits
        ],
        lines=[
            f"  {'body':<34} {'MB':>5} {'CPU s':>6} {'ratio':>6} {'peak MB':>8} {'left MB':>8}",
            *(
                f"  {c.name:<34} {c.size / 1e6:5.1f} {c.whole_s:6.2f} {c.ratio:6.2f} "
                f"{c.peak_mb:8.0f} {c.left_mb:8.2f}"
                for c in costs
            ),
        ],
        data={"costs": [{**asdict(cost), "ratio": cost.ratio} for cost in costs]},
    )


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"megabytes": (8.0, 0.01), "values": (VALUES_MAX - 500, 60)},
)
