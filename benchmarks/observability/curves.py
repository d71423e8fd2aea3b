"""Measures how fast a server answers with the curves of a day, for the pages of a job.

One job has the samples of a day of 8 GPUs and 2 replicas; one has 2 replicas, each with 20 values
given to ``progress``; and one has event files with 40 curves of a point every 10 s, which a server
reads in several calls.  The times are those of a client, from the request to the last byte.
"""

import argparse
import json
import math
import random
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.service.documents import PROJECT
from benchmarks.service.logs import run_job
from benchmarks.service.servers import Server, local
from trainshed.engines.supervise.watch.event_files import masked_crc
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine, encode_lines

ANSWER_S_MAX: Final = 0.3
#: The points that a page needs.
_POINTS: Final = "points=300"
_TAGS: Final = 40
_GPUS: Final = 8
_TASKS: Final = ("workerpool0-0", "workerpool1-0")
_NOISE: Final = random.Random(35)  # noqa: S311
_LENGTH: Final = struct.Struct("<Q")
_CRC: Final = struct.Struct("<I")


def measure(args: argparse.Namespace) -> Report:
    """Measure a server with three jobs that have ended."""
    now_s, rounds = time.time(), args.rounds
    with tempfile.TemporaryDirectory() as folder, local(Path(folder)) as server:
        goals: list[Goal] = []
        for what, route, line in (
            ("use of 8 GPUs and 2 replicas", "usage", _line_of_gpus),
            ("40 curves given to progress", "scalars", _line_of_values),
        ):
            job, attempt = _run_job(server, Path(folder))
            lines = [line(minute, now_s) for minute in range(-args.minutes, 0)]
            _write_usage(attempt / "usage.jsonl", lines)
            goals += _judge(server, f"{what}, a day", f"{job}/{route}?{_POINTS}", rounds)
        job, attempt = _run_job(server, Path(folder))
        (attempt / "usage.jsonl").unlink(missing_ok=True)
        _write_events(attempt / "work" / "runs", args.minutes * 6, now_s)
        goals += _judge_events(server, f"{job}/scalars?{_POINTS}", rounds)
        return Report(goals=goals)


def _run_job(server: Server, folder: Path) -> tuple[str, Path]:
    """Run a job to its end; return the path of its routes, and the folder of its attempt."""
    name, _ = run_job(server, "pass")
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}"
    with server.client() as client:
        return path, folder / "jobs" / client.call("GET", path)["uid"] / "1"


def _judge(server: Server, what: str, path: str, rounds: int) -> Iterator[Goal]:
    """Time the first answer and the next ones, of which the fastest counts."""
    first_s, answer = _time(server, path)
    yield at_most(f"{what}: first answer", first_s, ANSWER_S_MAX, "s", _describe(answer))
    next_s = min(_time(server, path)[0] for _ in range(rounds))
    yield at_most(f"{what}: next answer", next_s, ANSWER_S_MAX, "s")


def _describe(answer: Mapping[str, Any]) -> str:
    """Say how much an answer contains.  Raises SystemExit if that is nothing."""
    series: list[Mapping[str, Any]] = answer["series"]
    if not series:
        raise SystemExit(f"the answer has no series: {answer}")
    return f"{len(series)} series, {sum(map(_count_points, series)):,} points"


def _count_points(series: Mapping[str, Any]) -> int:
    return len(series["points"])


def _judge_events(server: Server, path: str, rounds: int) -> Iterator[Goal]:
    """Time the first answer, the whole reading, and an answer without news."""
    first_s, answer = _time(server, path)
    name = "40 curves of event files, a day"
    yield at_most(f"{name}: first answer", first_s, ANSWER_S_MAX, "s", _describe(answer))
    began, calls = time.monotonic(), 1
    while not answer["complete"]:
        _, answer = _time(server, path)
        calls += 1
    note = f"{calls} calls"
    yield at_most(f"{name}: read", first_s + time.monotonic() - began, None, "s", note)
    again_s = min(_time(server, path)[0] for _ in range(rounds))
    yield at_most(f"{name}: next answer", again_s, ANSWER_S_MAX, "s")


def _time(server: Server, path: str) -> tuple[float, Mapping[str, Any]]:
    began = time.monotonic()
    with server.client() as client:
        answer = client.answer("GET", path)
    return time.monotonic() - began, json.loads(answer)


def _write_usage(file: Path, lines: Sequence[UsageLine]) -> None:
    """Write a line a minute, as a supervisor does."""
    encoded = [data for line in lines for data in encode_lines(line)]
    file.write_bytes(b"\n".join(encoded) + b"\n")


def _line_of_gpus(minute: int, now_s: float) -> UsageLine:
    replicas = {task: _replica_usage(minute, {}) for task in _TASKS}
    gpus = {f"GPU-{number:032x}": _gpu_usage() for number in range(_GPUS)}
    return UsageLine(now_s + 60.0 * minute, 60.0, replicas, gpus)


def _line_of_values(minute: int, now_s: float) -> UsageLine:
    names = [f"value/{number}" for number in range(_TAGS // len(_TASKS))]
    replicas = {
        task: _replica_usage(minute, {name: _spread(3.0) for name in names}) for task in _TASKS
    }
    return UsageLine(now_s + 60.0 * minute, 60.0, replicas, {})


def _replica_usage(minute: int, values: Mapping[str, Spread]) -> ReplicaUsage:
    return ReplicaUsage(
        cpu=_spread(8.0),
        memory=_spread(1e10),
        read=_spread(1e6),
        written=_spread(1e6),
        processes=_spread(9.0),
        step=(minute * 20 + 30_000, minute * 20 + 30_019),
        total=30_000,
        values=values,
    )


def _gpu_usage() -> GpuUsage:
    return GpuUsage(_spread(1.0), _spread(8e10), _spread(700.0), _spread(80.0), 36_000.0)


def _spread(most: float) -> Spread:
    return Spread(*sorted(_NOISE.uniform(0, most) for _ in range(3)))


def _write_events(folder: Path, points: int, now_s: float) -> None:
    """Write files as PyTorch does: a record for each value."""
    folder.mkdir(parents=True)
    with (folder / f"events.out.tfevents.{int(now_s)}.host.1.0").open("wb") as file:
        for step in range(points):
            at_s = now_s + 10.0 * step
            for tag in range(_TAGS):
                file.write(_record(f"group/curve_{tag}", math.exp(-step / points), step, at_s))


def _record(tag: str, value: float, step: int, at_s: float) -> bytes:
    name = tag.encode()
    content = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(content)]) + content
    event = b"\x09" + struct.pack("<d", at_s) + b"\x10" + _varint(step)
    event += b"\x2a" + bytes([len(summary)]) + summary
    length = _LENGTH.pack(len(event))
    return length + _CRC.pack(masked_crc(length)) + event + _CRC.pack(masked_crc(event))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


BENCHMARK = Benchmark(
    description=__doc__ or "",
    measure=measure,
    sizes={"minutes": (1440, 30), "rounds": (5, 2)},
)
