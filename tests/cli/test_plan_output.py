"""The forms of a plan: words, table, JSON, CSV, a picture and a page."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from golden import check_golden
from planning.test_what_ifs import CALIBRATION, JOB, TRAINING, WORK
from trainshed.cli.plan.plan_tables import as_csv, as_json, table_text
from trainshed.planning.clusters_asked import clusters
from trainshed.planning.job_plan import JobPlan
from trainshed.planning.marks import marks_of
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.plan_words import head, recommendations, remarks
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import written as calibration_text
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.prediction import Binding, Interval, NoPrediction, Prediction
from trainshed.planning.what_ifs import ClusterOption

GOLDEN = Path(__file__).parent.parent / "golden/cli"


def hand_made():
    """A plan of figures that no fit changes."""
    request = PlanRequest(what_if=[("gpus", (8, 16, 4096))], reducers=0, deadline=10 * 3600.0)
    prices = PriceList()
    options = []
    for what_if in clusters(JOB, request, [CALIBRATION]):
        cluster = what_if.cluster
        n = cluster.accelerators
        if n == 4096:
            answer = NoPrediction(field="gpus", message="4096 is too far", accepted="up to 1024",
                             samples_per_s=(0.0, 1_000_000.0))  # fmt: skip
            options.append(ClusterOption(what_if=what_if, answer=answer))
            continue
        rate = Interval(low=300.0 * n**0.9, point=320.0 * n**0.9, high=330.0 * n**0.9)
        answer = Prediction(
            cluster=cluster, batch_per_accelerator=64.0, step_s=rate.inverse(64.0 * n),
            efficiency=rate.times(1 / 320 / n),
            base_accelerators=1, bound_by=Binding.NETWORK, parts_s=((Binding.COMPUTE, 0.18),),
            warnings=("assumes that the host can feed 8 accelerators",),
        )  # fmt: skip
        hour = prices.of(what_if.machines)
        time_s = rate.inverse(WORK.samples)
        options.append(ClusterOption(what_if=what_if, answer=answer, time_s=time_s, hour=hour))
    marks = marks_of(options, request)
    own = next(option for option in options if option.what_if.is_own)
    return JobPlan(
        job=JOB,
        request=request,
        work=WORK,
        prices=prices,
        options=tuple(options),
        marks=marks,
        own=own,
    )


def test_the_table_the_json_and_the_csv_look_like_this():
    plan = hand_made()
    text = "\n".join([head(plan), *recommendations(plan), "", table_text(plan), "", *remarks(plan)])
    check_golden(GOLDEN / "plan.txt", f"{text}\n")
    document = json.dumps(as_json(plan, [CALIBRATION], ["a note"]) | {"calibrations": []}, indent=2)
    check_golden(GOLDEN / "plan.json", f"{document}\n")
    check_golden(GOLDEN / "plan.csv", as_csv(plan))


def test_the_page_of_the_command_line_shows_such_a_plan():
    page = Path(__file__).parents[2] / "docs/reference/command-line.md"
    assert (GOLDEN / "plan.txt").read_text() in page.read_text()


def test_words_come_first_then_the_table(plan):
    run = plan("--what-if", "gpus=8,16", "--target", "samples=100000000")
    first, *marks = run.out.partition("\n\n")[0].splitlines()
    assert re.match(r"32 GPUs: [\d.]+ times one \([\d.]+ to [\d.]+\), [\d.]+ h ", first)
    assert [line.split()[0] for line in marks] == ["fastest", "cheapest", "knee"]
    assert "no time to a quality is given" in run.out


def test_the_page_needs_nothing_else_and_a_refused_plan_leaves_no_file(plan, tmp_path):
    pytest.importorskip("matplotlib", reason="make test installs trainshed[plan]")
    assert plan("--png", "plan.png", "--html", "plan.html", "--what-if", "gpus=8").code == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "plan.html").read_text()
    assert "<svg" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert re.findall(r"""(?:src|href)=["'](?!#)[^"']*["']""", page.replace("xlink:", "")) == []
    assert "resnet50; torch 2.6; allreduce" in page
    target = ("--target", "samples=1e6", "--what-if", "gpus=8", "--html", "plan.html")
    assert plan(*target).code == 0
    assert "<p>The batch grows with the accel" in (tmp_path / "plan.html").read_text()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert plan("--png", "b.png", "--html", "b.html", "--what-if", "gpus=100000").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_picture_leaves_out_what_was_refused_and_has_a_colour_for_a_line(plan, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure", reason="make test installs trainshed[plan]")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    assert plan("--what-if", "gpus=8,16,32,64,100000", "--png", "plan.png").code == 0
    left, right = drawn[0].axes
    assert max(max(line.get_xdata()) for line in left.lines) == 64
    lines = {line.get_label(): line.get_color() for line in left.lines}
    texts = [text.get_text().splitlines()[0] for text in right.texts]
    colours = dict(
        zip(texts, (container.lines[0].get_color() for container in right.containers), strict=True)
    )
    assert colours["64 + r"] == lines["n1-standard-32 with reducers"]
    assert colours["64"] == lines["n1-standard-32"]


def test_the_picture_shows_unknown_links_as_a_range_and_no_process_as_a_host(
    plan, written, monkeypatch
):
    figure = pytest.importorskip("matplotlib.figure", reason="make test installs trainshed[plan]")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    host = HostKind(machine_type="n1-standard-8", accelerator="CPU", per_host=2)
    runs = (
        Run(kind=RunKind.COMPUTE, steps=100, step_s=0.01),
        Run(kind=RunKind.HOST, accelerators=2, steps=100, step_s=0.018),
    )
    file = written("cpu.toml", calibration_text(calibrated(TRAINING, host, runs)))
    pools = [{"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": count,
              "containerSpec": {"imageUri": "img"}} for count in (1, 3)]  # fmt: skip
    job = written("cpu.json", json.dumps({"workerPoolSpecs": pools}))
    assert plan("--png", "plan.png", file=job, calibration=file).code == 0
    left, right = drawn[0].axes
    points = {line.get_label(): list(line.get_xdata()) for line in left.lines}
    name = "n1-standard-8; shaded: links of 1 to 100 Gbit/s assumed"
    assert points == {name: [1], "in proportion": [1, 8], "measured": [1]}
    assert [len(line.get_xdata()) for line in right.lines if line.get_alpha()] == [2, 2, 2]
    assert "5,000" in [text.get_text() for text in left.get_yticklabels()]


def test_without_matplotlib_a_picture_is_refused_and_the_page_says_so(plan, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = plan("--png", "plan.png")
    assert run.code == 2
    assert "pip install --find-links dist 'trainshed[plan]'" in run.err
    assert not (tmp_path / "plan.png").exists()
    assert plan("--html", "plan.html").code == 0
    assert "No picture" in (tmp_path / "plan.html").read_text()


def test_a_picture_takes_the_place_of_no_device_and_no_pipe(plan, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    run = plan("--png", "pipe")
    assert (run.code, run.out) == (2, "")
    assert "--png must be a file in a folder that exists, got pipe" in run.err
    assert (tmp_path / "pipe").is_fifo()
