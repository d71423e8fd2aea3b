"""Lines of usage from samples: rates, gaps, energy, and names and steps of programs."""

import pytest

from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.engines.supervise.watch.usage_lines import LineMaker, Samples
from trainshed.model.usage import ReportedProgress, Spread, encode_lines

NAME = "master-replica-0"
S = 1_000_000_000


def sample(now_s, cpu_s=None, *, at=None, **more):
    usages = {} if cpu_s is None else {NAME: Usage(cpu_ns=int(cpu_s * S))}
    return Samples(now_s, 1e9 + now_s if at is None else at, **{"usages": usages, **more})


def test_lines_come_every_sample_then_once_a_minute_and_at_the_end():
    maker = LineMaker(10.0, sample(0.0, 0.0))
    lines = []
    for second in range(10, 900, 10):
        lines += maker.add(sample(second, second * (2 if second % 20 else 1)))
    assert [line.at - 1e9 for line in lines] == [*range(10, 601, 10), 660, 720, 780, 840]
    assert {round(line.s) for line in lines[60:]} == {60}
    assert lines[0].replicas[NAME].cpu == Spread(2, 2, 2)
    (last,) = maker.add(sample(893, 890), is_last=True)
    assert last.s == 53
    assert sum(line.s for line in lines) + last.s == 893


@pytest.mark.parametrize(("replicas", "values"), [(320, 0), (8, 32)])
def test_the_file_of_a_large_gang_or_of_many_values_grows_no_faster(replicas, values):
    """A thousand replicas would write a gigabyte in four days."""
    names = [f"worker-{number}" for number in range(replicas)]
    report = ReportedProgress(7, 10**6, {f"value_{number}": 1 / 7 for number in range(values)})
    maker, lines = LineMaker(10.0, Samples(0.0, 1e9)), []
    for second in range(10, 7201, 10):
        usages = {name: Usage(cpu_ns=second * S) for name in names}
        reports = dict.fromkeys(names, report)
        lines += maker.add(Samples(second, 1e9 + second, usages=usages, progress=reports))
    assert all(line.replicas.keys() == set(names) for line in lines)
    assert lines[-1].replicas[names[0]].cpu == Spread(1, 1, 1)
    written_bytes = sum(len(data) for data in encode_lines(lines[-1]))
    assert 3000 < written_bytes / (lines[-1].s / 60) < 6000


def run_for_minutes(cores, **more):
    """A maker at second 660, after its first ten minutes and a line."""
    maker = LineMaker(10.0, sample(0.0, 0.0, **more))
    for second in range(10, 661, 10):
        maker.add(sample(second, second * cores, **more))
    return maker


def test_a_rate_counts_as_long_as_it_lasted_and_no_counter_goes_back():
    maker = run_for_minutes(0)
    maker.add(sample(661, 1))
    maker.add(sample(680, 1))
    maker.add(sample(690, 0.5))
    (line,) = maker.add(sample(720, 0.5), is_last=True)
    cpu = line.replicas[NAME].cpu
    assert (cpu.low, cpu.high) == (0, 1)
    assert cpu.mean == pytest.approx(1 / 50), "the time in which the counter went back is unknown"


def test_usage_that_was_not_measured_again_is_no_sample():
    """A warden reports less often than its launcher samples, and says when it measured."""
    maker = LineMaker(10.0, sample(0.0))
    usage = Usage(cpu_ns=10 * S, memory_bytes=8, at_s=5.0)
    (first,) = maker.add(Samples(10.0, 1e9 + 10, usages={NAME: usage}))
    assert first.replicas[NAME].cpu is None
    assert maker.add(Samples(20.0, 1e9 + 20, usages={NAME: usage})) == []
    later = usage._replace(cpu_ns=25 * S, at_s=20.0)
    (line,) = maker.add(Samples(30.0, 1e9 + 30, usages={NAME: later}))
    assert line.replicas[NAME].cpu.mean == 1.0


@pytest.mark.parametrize(
    ("now_s", "at"), [(70.0, None), (20.0, 1e9 + 3620), (20.0, 1e9 - 3580)], ids=str
)
def test_a_pause_or_a_clock_that_is_set_ends_a_line(now_s, at):
    """The counters went on meanwhile, and the new line does not show it."""
    gpus = {"GPU-1": GpuFigures(use=1.0, energy_j=100.0)}
    maker = run_for_minutes(1, gpus=gpus)
    maker.add(sample(665, 665))
    now_s, at = now_s + 660, None if at is None else at + 660
    more = {"gpus": {"GPU-1": GpuFigures(use=1.0, energy_j=5000.0)}}
    (before,) = maker.add(sample(now_s, now_s * 9, at=at, **more))
    assert (before.at, before.s) == (1e9 + 665, 5)
    (after,) = maker.add(
        sample(now_s + 10, now_s * 9 + 10, at=at and at + 10, gpus=gpus), is_last=True
    )
    assert after.at == (at or 1e9 + now_s) + 10
    assert after.s == 10
    assert after.replicas[NAME].cpu == Spread(1, 1, 1)
    assert after.gpus["GPU-1"].energy_j is None


def test_the_energy_of_all_lines_is_what_the_counter_counted():
    maker, energy_j = LineMaker(10.0, sample(0.0, gpus={"GPU-1": GpuFigures(energy_j=5e6)})), 5e6
    lines = []
    for second in range(10, 3601, 10):
        energy_j += 7000 if second % 50 else 0
        figures = GpuFigures(use=0.1 if second % 20 else 0.9, power=650, energy_j=energy_j)
        lines += maker.add(sample(second, gpus={"GPU-1": figures}))
    assert sum(line.gpus["GPU-1"].energy_j for line in lines) == pytest.approx(energy_j - 5e6)
    assert lines[-1].gpus["GPU-1"].use == Spread(0.1, pytest.approx(0.5), 0.9)
    (line,) = maker.add(sample(3610, gpus={"GPU-1": GpuFigures(energy_j=3.0)}), is_last=True)
    assert line.gpus["GPU-1"].energy_j is None, "the driver was loaded again"
    (line,) = maker.add(sample(3620, gpus={"GPU-1": GpuFigures(energy_j=7e6)}), is_last=True)
    assert line.gpus["GPU-1"].energy_j is None, "another counter took its place"


def test_a_short_attempt_has_no_readings_of_the_job_before():
    before = {"GPU-1": GpuFigures(use=1.0, energy_j=5e6)}
    maker = LineMaker(10.0, sample(0.0, 0.0, gpus=before))
    (line,) = maker.add(sample(4.0, 1.0, gpus=before), is_last=True)
    assert line.gpus == {}
    maker = LineMaker(10.0, sample(0.0, 0.0, gpus=before))
    own = {"GPU-1": GpuFigures(use=0.5, energy_j=5e6 + 70)}
    (line,) = maker.add(sample(4.0, 1.0, gpus=own), is_last=True)
    assert (line.gpus["GPU-1"].use, line.gpus["GPU-1"].energy_j) == (Spread(0.5, 0.5, 0.5), 70)


def test_a_driver_that_nobody_read_for_an_hour_has_counted_on():
    maker, joules = LineMaker(10.0, sample(0.0, gpus={"GPU-1": GpuFigures(energy_j=5e6)})), []
    for second in range(10, 3610, 10):
        counted = {"GPU-1": GpuFigures(energy_j=5e6 + 700 * second)} if second > 3590 else {}
        lines = maker.add(sample(second, gpus=counted), is_last=second == 3600)
        joules += [line.gpus["GPU-1"].energy_j for line in lines if line.gpus]
    assert sum(filter(None, joules)) == 700 * 3600


def test_a_gpu_that_is_lost_is_absent_from_then_on():
    both = {"GPU-1": GpuFigures(use=1.0), "GPU-2": GpuFigures(memory=5.0)}
    maker = LineMaker(10.0, sample(0.0))
    (line,) = maker.add(sample(10, gpus=both))
    assert line.gpus["GPU-2"].use is None, "what is not measured is not 0"
    (line,) = maker.add(sample(20, gpus={"GPU-1": both["GPU-1"]}))
    assert list(line.gpus) == ["GPU-1"]


def test_steps_that_go_back_and_many_names_stay_small():
    maker = LineMaker(10.0, sample(0.0))
    maker.add(sample(600.0), is_last=True)
    for number, step in enumerate((50, None, 7)):
        values = {f"v{number}-{name}": 1.0 for name in range(20)}
        maker.add(sample(610.0 + number, progress={NAME: ReportedProgress(step, None, values)}))
    (line,) = maker.add(sample(620), is_last=True)
    assert line.replicas[NAME].step == (50, 7)
    assert len(line.replicas[NAME].values) == 32
