"""What trials report reaches the engine: all of it, once, whatever happens to anybody meanwhile."""

import math
import os
import sys
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from engines.attempts import (
    KEY,
    OTHER,
    ended,
    engine_at,
    folder,
    marked,
    order,
)
from engines.events import event, first, record, simple, tensor
from engines.support import FOREVER, awaiting, touching, wait_until
from engines.trials import HYPERTUNE, WRITERS, metric_file, steps, trial, whole
from trainshed.engines.container_runtime import Runtime
from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import Preparation, ReplicaSite
from trainshed.engines.supervise.record import spec as specs
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Measured, MetricsPlan
from trainshed.model.launch_plan import ContainerPlan

COUNTS = {"hypertune": 400, "ignite": 400, "trainer": 400}


def count_reports(root):
    """An expression of a program: how many of its reports the supervisor has read so far."""
    reports = AttemptFolder(folder(root)).reports
    return f"(os.path.exists({reports!r}) and sum(1 for _ in open({reports!r}, 'rb')))"


@pytest.mark.parametrize(("writer", "count"), COUNTS.items())
def test_no_report_of_a_fast_program_is_lost_or_told_twice(root, mark, writer, count):
    """One each millisecond; the file keeps a hundred, and no machine stands still for longer."""
    code = (
        f"{WRITERS[writer]}\nfor i in range({count}):\n    tune(i, i)\n    time.sleep(0.001)\n"
        f"    while i - {count_reports(root)} > 90: time.sleep(0.001)\n"
    )
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code), ())
    assert ended(engine).outcome.exit_code == 0
    metrics = engine.measured(KEY, 0)
    assert steps(metrics) == list(range(count))
    assert [report.value for report in metrics.reports] == [float(i) for i in range(count)]
    assert all(a.elapsed_s <= b.elapsed_s for a, b in pairwise(metrics.reports))
    assert metrics.found == f"{metric_file(root)} has the metric loss"
    assert len(metric_file(root).read_text().splitlines()) == 100


def test_a_mark_is_what_to_ask_behind_and_outlives_the_server(root, mark, tmp_path):
    """Two reports, one, and the end; each is asked for by another engine on the same folder."""
    go, done = tmp_path / "go", tmp_path / "done"
    code = f"{HYPERTUNE}\ntune(0.5, 1)\ntune(0.4, 2)\n{awaiting(go)}tune(0.3, 3)\n{awaiting(done)}"
    engine = engine_at(root)
    assert engine.measured(KEY, 0).mark == 0
    assert engine.measured(OTHER, 77) == Measured(mark=77)
    engine.launch(KEY, trial(root, mark, code), ())
    wait_until(lambda: len(engine.measured(KEY, 0).reports) == 2, "two are there while it runs")
    two = whole(root)
    assert [(r.tag, r.value, r.step) for r in two.reports] == [("loss", 0.5, 1), ("loss", 0.4, 2)]
    assert engine_at(root).measured(KEY, two.mark).reports == ()
    go.touch()
    three = wait_until(
        lambda: (m := engine_at(root).measured(KEY, two.mark)).reports and m, "one more is there"
    )
    assert steps(three) == [3]
    done.touch()
    ended(engine)
    assert engine_at(root).measured(KEY, three.mark).reports == ()
    assert engine_at(root).measured(KEY, three.mark).mark == three.mark
    assert steps(whole(root)) == [1, 2, 3]


@pytest.mark.usefixtures("patience")
def test_what_is_reported_with_the_last_breath_is_there_when_the_end_is(root, mark):
    code = f"{HYPERTUNE}\nfor i in range(100): tune(i, i)\nos.kill(os.getpid(), 9)\n"
    engine = engine_at(root)
    for number in range(5):
        key = KEY._replace(attempt=number + 1)
        engine.launch(key, trial(root, mark, code, key=key), ())
        assert ended(engine, key).outcome.exit_code == 137
        assert steps(engine.measured(key, 0)) == list(range(100))


def test_a_program_that_is_killed_while_it_writes_costs_no_earlier_report(root, mark, tmp_path):
    """Half of the file is there, and half of a line."""
    ready, path = tmp_path / "ready", metric_file(root)
    code = (
        f"{HYPERTUNE}\nfor i in range(30): tune(i, i)\n{awaiting(ready)}"
        f"data = open({str(path)!r}).read()\n"
        f"open({str(path)!r}, 'w').write(data[: len(data) // 2 - 7])\nos.kill(os.getpid(), 9)\n"
    )
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code), ())
    wait_until(lambda: len(engine.measured(KEY, 0).reports) == 30, "all are told")
    ready.touch()
    ended(engine)
    assert steps(whole(root)) == list(range(30))
    assert whole(root).found == f"{path} has the metric loss"


def test_seconds_are_counted_from_the_program_s_start_and_never_wrong(root, mark):
    write = "open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w').write(''.join(lines))\n"
    times = ["time.time()", "0", "1e18", "'soon'", "None", "float('nan')"]
    code = (
        "import json, time\ntime.sleep(0.3)\n"
        f"lines = [json.dumps({{'loss': 1, 'global_step': i, 'timestamp': t}}) + '\\n' "
        f"for i, t in enumerate([{', '.join(times)}])]\n{write}"
    )
    engine = engine_at(root)
    began = time.time()
    engine.launch(KEY, trial(root, mark, code), ())
    ended(engine)
    elapsed = [report.elapsed_s for report in whole(root).reports]
    passed = time.time() - began
    assert len(elapsed) == len(times)
    assert elapsed[1] == 0.0
    assert all(0.3 <= seconds <= passed for seconds in (elapsed[0], *elapsed[2:]))


def test_values_that_are_no_numbers_are_numbers_that_are_none(root, mark):
    code = f"{HYPERTUNE}\nfor i, v in enumerate(['nan', 'inf', '-inf']): tune(float(v), i)\n"
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code), ())
    ended(engine)
    nan, *infinities = [report.value for report in whole(root).reports]
    assert math.isnan(nan)
    assert infinities == [math.inf, -math.inf]


def test_each_replica_has_a_file_of_its_own(root, mark, tmp_path):
    done = [tmp_path / "one", tmp_path / "two"]  # the primary's end is the end of all
    primary = f"{HYPERTUNE}\ntune(0, 1)\n{awaiting(*done)}"
    workers = [f"{HYPERTUNE}\ntune({i}, 1)\n{touching(done[i - 1])}" for i in (1, 2)]
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, primary, *workers), ())
    ended(engine)
    assert sorted(report.value for report in whole(root).reports) == [0.0, 1.0, 2.0]
    first_one = metric_file(root)
    assert whole(root).found.split("; ")[0] == f"{first_one} has the metric loss"


# summaries


def writing(path, data, then=""):
    return (
        f"os.makedirs({str(path.parent)!r}, exist_ok=True)\n"
        f"open({str(path)!r}, 'ab').write({data!r})\n{then}"
    )


def test_summaries_are_read_while_the_program_runs(root, mark, tmp_path):
    path = tmp_path / "logs" / "train" / "events.out.tfevents.1"
    code = writing(path, first() + record(event(tensor("loss", 0.5), step=1)), FOREVER)
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code, summaries=[tmp_path / "logs"]), ())
    wait_until(lambda: steps(engine.measured(KEY, 0)) == [1], "it is told while the program runs")
    engine.stop(KEY, order(0.0))
    ended(engine)
    sentences = whole(root).found.split("; ")
    assert sentences[0].endswith("was never written")
    assert sentences[1] == f"event files in {tmp_path}/logs have the tag loss"


def test_of_two_ways_to_a_metric_hypertune_s_counts(root, mark, tmp_path):
    """Keras' validation counts before its training, and both but where hypertune has none."""
    logs = tmp_path / "logs"
    data = {
        "train": record(event(simple("loss", 9.0), simple("lr", 0.5), step=1)),
        "validation": b"".join(record(event(simple("loss", i + 0.5), step=i)) for i in (1, 2)),
    }
    code = "".join(writing(logs / name / "x.tfevents", data[name]) for name in data)
    code += f"{HYPERTUNE}\ntune(0.25, 1)\n"
    engine = engine_at(root)
    plan = trial(root, mark, code, tags=("loss", "lr"), summaries=[logs, logs / "train"])
    engine.launch(KEY, plan, ())
    ended(engine)
    rows = [(r.tag, r.step, r.value) for r in whole(root).reports]
    assert sorted(rows) == [("loss", 1, 0.25), ("loss", 2, 2.5), ("lr", 1, 0.5)]


def test_a_trial_may_report_by_summaries_alone_and_much(root, mark, tmp_path):
    count = 10_000
    data = b"".join(record(event(simple("loss", 1.0), step=i)) for i in range(count))
    (tmp_path / "data").write_bytes(data)
    code = (
        f"import shutil\nshutil.copy({str(tmp_path / 'data')!r}, "
        f"{str(tmp_path / 'logs' / 'a.tfevents')!r})\n"
    )
    (tmp_path / "logs").mkdir()
    engine = engine_at(root)
    plan = trial(root, mark, code, files=(), summaries=[tmp_path / "logs"])
    engine.launch(KEY, plan, ())
    ended(engine)
    assert steps(whole(root)) == list(range(count))


# the way of a plan


def test_a_job_that_is_no_trial_has_no_reports(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "pass"), ())
    ended(engine)
    assert engine.measured(KEY, 0).reports == ()
    assert not (folder(root) / "reports.jsonl").exists()


def test_a_plan_of_metrics_comes_through_both_parts_of_the_file(root, mark):
    plan = trial(root, mark, "pass", summaries=["/logs"])
    site = ReplicaSite(key=KEY, folder=AttemptFolder(folder(root)))
    spec = plan_file.spec_of(site, plan, ())
    assert spec.metrics == MetricsPlan(plan.metrics.files, ("loss",), ("/logs",))
    site.folder.make()
    plan_file.write(site.folder.plan, spec, Preparation(plan=plan))
    assert plan_file.read(site.folder.plan).plan == plan
    assert specs.read(site.folder.plan) == spec


def test_containers_see_the_folder_of_the_metric_file_and_may_write_it(root, mark):
    uid = 65533 if os.geteuid() == 0 else os.geteuid()
    runtime = Runtime("docker", "/usr/bin/docker", "28", f"{uid}:{uid}")
    plan = trial(root, mark, "pass", files=[str(metric_file(root)), "/elsewhere/output.metrics"])
    contained = replace(plan.primary, container=ContainerPlan(image="image"))
    plan = replace(plan, replicas=(contained,))
    site = ReplicaSite(key=KEY, folder=AttemptFolder(folder(root)), runtime=runtime, env={})
    (spec,) = plan_file.replicas_of(
        site, plan, JobPython(python=sys.executable), (plan_file.Share(),)
    )
    place = metric_file(root).parent
    mounts = [word for word in spec.argv if word.startswith("type=bind") and "hypertune" in word]
    assert len(mounts) == 1
    assert f"source={place}" in mounts[0].replace('"', "")
    assert f"target={place}" in mounts[0].replace('"', "")
    assert place.stat().st_uid == uid
    assert "/elsewhere" not in " ".join(spec.argv)
