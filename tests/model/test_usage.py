"""Lines of usage: what is written is read again, and nothing else is believed."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.usage import (
    LINE_BYTES_MAX,
    VALUES_MAX,
    GpuUsage,
    ReplicaUsage,
    ReportedProgress,
    Spread,
    UsageLine,
    encode_lines,
    merge_lines,
    parse_line,
    parse_lines,
    parse_progress,
    thin_lines,
)
from trainshed.model.usage_curves import UNITS, UsageColumns

DAY_S = 86_400.0
FULL = ReplicaUsage(
    cpu=Spread(0.5, 1.25, 2.0),
    memory=Spread(1e9, 2e9, 3e9),
    read=Spread(0.0, 0.0, 0.0),
    written=Spread(0.0, 12340.0, 1e6),
    processes=Spread(1.0, 8.0, 64.0),
    step=(123456789, 123456999),
    total=10**12,
    values={"loss": Spread(-1.5, 0.25, 3.0)},
)
GPU = GpuUsage(
    use=Spread(0.0, 0.5, 1.0),
    memory=Spread(7e10, 7e10, 7e10),
    power=Spread(100.0, 400.0, 690.0),
    temperature=Spread(40.0, 50.0, 60.0),
    energy_j=24000.0,
)


def line(at=1000.0, s=60.0, **more):
    return UsageLine(at, s, **more)


@pytest.mark.parametrize(
    "written",
    [
        line(replicas={"a": FULL}, gpus={"GPU-1": GPU}),
        line(replicas={"a": ReplicaUsage(), "b": ReplicaUsage(step=(5, 2))}),
        line(gpus={"GPU-1": GpuUsage(energy_j=0.0)}),
        line(at=1764500000.125, s=0.25),
    ],
    ids=range(4),
)
def test_what_is_written_is_read(written):
    (data,) = encode_lines(written)
    assert b"\n" not in data
    assert parse_line(data) == written


def test_a_series_that_is_not_measured_is_absent_and_not_0():
    (data,) = encode_lines(line(replicas={"a": ReplicaUsage(memory=Spread(1, 2, 3))}))
    assert json.loads(data)["replicas"] == {"a": {"memory": [1, 2, 3]}}
    assert b"gpus" not in data


def test_the_line_of_a_large_gang_is_several():
    values = {f"value {number}": Spread(0.1, 0.2, 0.3) for number in range(VALUES_MAX)}
    gang = {f"worker-{number}": FULL._replace(values=values) for number in range(500)}
    written = line(replicas=gang, gpus={f"GPU-{number}": GPU for number in range(64)})
    lines = encode_lines(written)
    assert len(lines) > 5
    assert max(map(len, lines)) < LINE_BYTES_MAX
    assert merge_lines(parse_lines(lines)) == written


WHOLE = {
    "at": 1.0,
    "s": 2.0,
    "replicas": {"a": {"cpu": [1, 2, 3]}},
    "gpus": {"G": {"use": [0] * 3}},
}


@pytest.mark.parametrize(
    "change",
    [
        {"at": None},
        {"at": "1"},
        {"at": True},
        {"at": math.nan},
        {"at": -1},
        {"s": math.inf},
        {"s": [1]},
        {"replicas": []},
        {"replicas": {"a": 1}},
        {"replicas": {"a" * 129: {}}},
        {"replicas": {"\x1b[2J": {}}},
        {"replicas": {"a": {"cpu": [1, 2]}}},
        {"replicas": {"a": {"cpu": [1, 2, math.nan]}}},
        {"replicas": {"a": {"cpu": [-1, 2, 3]}}},
        {"replicas": {"a": {"cpu": None}}},
        {"replicas": {"a": {"cpu": [1, 2, 10**400]}}},
        {"replicas": {"a": {"step": [1, 2**60]}}},
        {"replicas": {"a": {"step": [1.5, 2]}}},
        {"replicas": {"a": {"step": 7}}},
        {"replicas": {"a": {"total": "9"}}},
        {"replicas": {"a": {"values": {"loss": [1, 2, "3"]}}}},
        {"replicas": {"a": {"values": [1]}}},
        {"replicas": {"a": {"values": {"\ud800": [1, 2, 3]}}}},
        {"gpus": {"G": {"task": ["a"]}}},
        {"gpus": {"G": {"task": "a\n"}}},
        {"gpus": {"G": {"use": [True, 1, 1]}}},
        {"gpus": {"G": {"energy_j": -1}}},
        {"gpus": 5},
    ],
    ids=str,
)
def test_a_line_with_a_wrong_value_is_skipped(change):
    assert parse_line(json.dumps(WHOLE).encode()) is not None
    assert parse_line(json.dumps({**WHOLE, **change}).encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"1",
        b'{"at": 1.0, "s": 2.0, "rep',
        b'{"at": 1}',
        b"[" * 60_000,
        b'{"at": 1.0, "s": 2.0, "gpus": {"\xff": {}}}',
        b'{"at": 1.0, "s": 2.0' + b" " * LINE_BYTES_MAX + b"}",
    ],
    ids=range(8),
)
def test_a_line_that_is_torn_or_too_long_is_skipped(data):
    assert parse_line(data) is None


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["at", "s", "replicas", "gpus", "cpu", "step", "values", "use", "a"]), inner
    ),
    max_leaves=20,
))  # fmt: skip
def test_no_document_raises(document):
    data = json.dumps(document).encode()
    parsed = parse_line(data)
    if parsed is not None:
        again = parse_lines(encode_lines(parsed))
        assert [row.at for row in again] == [pytest.approx(parsed.at, abs=1e-3)]
    parse_progress(data)


def test_lines_are_in_the_order_of_time_and_equal_ones_count_once():
    first, second = encode_lines(line(at=5.0)) + encode_lines(line(at=3.0))
    assert [row.at for row in parse_lines([first, second, b"{", first])] == [3.0, 5.0]


def test_a_report_keeps_the_first_values():
    names = {f"v{number}": number for number in range(100)}
    report = parse_progress(json.dumps({"step": 1, **names}).encode())
    assert (report.step, list(report.values)) == (1, [f"v{n}" for n in range(VALUES_MAX)])
    assert parse_progress(b"not JSON") == ReportedProgress()


def test_merged_lines_have_the_extremes_and_means_by_time():
    first = ReplicaUsage(cpu=Spread(1, 2, 3), step=(10, 20), values={"loss": Spread(1, 1, 1)})
    second = ReplicaUsage(cpu=Spread(0, 5, 9), step=(21, 15), total=99, memory=Spread(4, 4, 4))
    merged = merge_lines([
        line(60.0, 60.0, replicas={"a": first}, gpus={"G": GpuUsage(energy_j=5.0)}),
        line(90.0, 30.0, replicas={"a": second, "b": ReplicaUsage()}, gpus={"G": GPU}),
        line(100.0, 10.0),
    ])  # fmt: skip
    assert (merged.at, merged.s) == (100.0, 100.0)
    usage = merged.replicas["a"]
    assert usage.cpu == Spread(0, pytest.approx(3), 9)
    assert (usage.memory, usage.read) == (Spread(4, 4, 4), None)
    assert (usage.step, usage.total) == ((10, 15), 99)
    assert usage.values == {"loss": Spread(1, 1, 1)}
    assert merged.replicas["b"] == ReplicaUsage()
    assert merged.gpus["G"] == GPU._replace(energy_j=24005.0)


def test_a_week_stays_full_and_older_lines_are_one_in_ten_minutes():
    now = 30 * DAY_S
    usage = {"a": ReplicaUsage(cpu=Spread(1, 1, 1))}
    times = [now - age_s for age_s in range(int(9 * DAY_S), 0, -60)]
    lines = [line(at, 60.0, replicas=usage) for at in times]
    thin = list(thin_lines(lines, now))
    old = [row for row in thin if row.at <= now - 7 * DAY_S]
    assert len(thin) - len(old) == 7 * 24 * 60 - 1
    assert len(old) in (2 * 24 * 6, 2 * 24 * 6 + 1)
    assert sum(row.s for row in thin) == sum(row.s for row in lines)
    assert list(thin_lines(thin, now)) == thin
    assert list(thin_lines([], now)) == []


def test_thin_lines_leave_a_gap_and_keep_lines_of_one_time_together():
    now = 30 * DAY_S
    lines = [line(60.0), line(60.0, gpus={"G": GPU}), line(240.0), line(300.0)]
    thin = list(thin_lines(lines, now))
    assert [(row.at, row.s) for row in thin] == [(60.0, 60.0), (300.0, 120.0)]
    assert thin[0].gpus == {"G": GPU}


def test_samples_of_all_figures_are_listed_and_none_where_nothing_was_measured():
    lines = [
        line(1.0, replicas={"a": FULL}, gpus={"G": GPU}),
        line(2.0, replicas={"a": ReplicaUsage(step=(9, 4))}),
    ]
    columns = UsageColumns(lines)
    assert {name for name, _, _ in columns.usage} == UNITS.keys()
    assert columns.usage["cpu", "a", ""] == ([1.0], [Spread(0.5, 1.25, 2.0)], [])
    assert columns.usage["gpu_power", "", "G"].spreads == [GPU.power]
    assert columns.usage["step", "a", ""].at == [1.0, 2.0]
    assert columns.usage["step", "a", ""].spreads[1] == Spread(4, 4, 9)
    assert columns.values["loss", "a"] == ([1.0], [FULL.values["loss"]], [FULL.step[1]])
