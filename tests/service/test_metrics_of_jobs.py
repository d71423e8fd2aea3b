"""The page of metrics of single jobs: what a job has, which jobs, and a database that is away."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families

from service.metric_samples import HOSTILE, samples_of
from store.builders import PROJECT, add, go, place
from trainshed.model.refusals import Code, Refusal
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.service.figures.answers import ProgressRow
from trainshed.service.telemetry import job_page
from trainshed.service.telemetry.job_goodput import sum_job_use
from trainshed.service.telemetry.job_page import LABEL_CHARS_MAX, JobFigures, JobsPage
from trainshed.store.base import StoreFault
from trainshed.store.records.usage import AttemptUse, UsageRow


def test_a_page_of_jobs_has_their_states_restarts_steps_and_costs(store):
    job = place(store, add(store).uid)
    go(store, job.uid, JobState.PREPARING, restarts=Restarts(infra=2))
    cost = {"amount": 1.5, "currency": "EUR", "at_least": True}
    row = ProgressRow(
        project=PROJECT, job=job.name, attempt=1, step=7, total=None, step_s=0.5,
        predicted_step_s=None, gpu_use=0.25, cost=cost,
    )  # fmt: skip
    gone = replace(row, job="projects/other/jobs/gone")
    figures = JobFigures(
        progress=lambda: [row, gone],
        reported=lambda: {row.job: 5.0},
        checkpoints=lambda: {job.uid: 4.0},
    )
    page = JobsPage(store, 10, figures)
    key = (PROJECT, str(job.uid))
    samples = samples_of(page.text([], is_open=False))
    assert samples["trainshed_job_info", *key, "customJobs", "PREPARING", "1", "ada"] == 1
    assert samples["trainshed_job_restarts_by_cause_total", *key, "infra"] == 2
    assert (samples["trainshed_job_step", *key], samples["trainshed_job_gpus", *key]) == (7, 2)
    assert samples["trainshed_job_cost", *key, "EUR", "true"] == 1.5
    assert samples["trainshed_job_heartbeat_timestamp_seconds", *key] == 5
    assert samples["trainshed_job_last_checkpoint_timestamp_seconds", *key] == 4
    assert ("trainshed_job_expected_steps", *key) not in samples
    assert not [labels for labels in samples if "gone" in labels]


def test_a_page_of_jobs_has_what_they_used_of_their_machines_until_a_minute_ago(store):
    job = place(store, add(store).uid)
    key = (PROJECT, str(job.uid))
    create_ns = store.newest_open(limit=1)[0].create_ns
    now_s = 0.0
    page = JobsPage(store, 10, monotonic=lambda: now_s)
    seconds = {"starting": 10.0, "idle": 20.0, "productive": 60.0}
    row = use_row(placed_ns=create_ns + 10 * 10**9, seconds=seconds)
    store.write_usage(job, [row])
    samples = samples_of(page.text([], is_open=False))
    assert samples["trainshed_job_goodput_ratio", *key] == 80 / 90
    assert samples["trainshed_job_ettr_ratio", *key] == pytest.approx(0.8)
    assert samples["trainshed_job_gpu_seconds_total", *key] == 180
    assert samples["trainshed_job_energy_joules_total", *key] == 7
    store.write_usage(job, [replace(row, seconds={"unknown": 60.0}, energy_j=None)])
    now_s = 59.0
    assert ("trainshed_job_goodput_ratio", *key) in samples_of(page.text([], is_open=False))
    now_s = 61.0
    samples = samples_of(page.text([], is_open=False))
    assert samples["trainshed_job_gpu_seconds_total", *key] == 120
    unknown = {"trainshed_job_goodput_ratio", "trainshed_job_ettr_ratio"}
    assert not (unknown | {"trainshed_job_energy_joules_total"}) & {name for name, *_ in samples}


def use_row(**changes):
    values = {
        "attempt": 1, "machine_type": "a2-highgpu-1g", "day": 20_778, "gpus": 2, "vcpus": 24.0,
        "placed_ns": 1, "end_ns": None, "seconds": {}, "energy_j": 7.0, "hour_price": None,
    }  # fmt: skip
    return UsageRow(**{**values, **changes})


@pytest.mark.parametrize(
    ("attempts", "goodput", "ettr"),
    [
        ([{"productive_s": 50, "held_s": 100, "end_ns": None}], 0.5, 0.25),
        ([{"productive_s": 50, "held_s": 100}], 0.5, 0.1),  # it waits again
        ([{"held_s": 100, "end_ns": None}], 0.0, 0.0),  # it starts
        ([{"idle_s": 100, "held_s": 100}], None, None),  # perhaps it reports no steps
        ([{"productive_s": 50, "held_s": 50}, {"unknown_s": 1, "held_s": 50}], None, None),
        ([{"held_s": 0}], None, None),
    ],
)
def test_the_goodput_of_an_open_job_is_none_if_time_is_unknown(attempts, goodput, ettr):
    nothing = AttemptUse(
        uid=1, attempt=1, placed_ns=100 * 10**9, end_ns=200 * 10**9, held_s=0.0, productive_s=0.0,
        idle_s=0.0, unknown_s=0.0, gpu_seconds=0.0, energy_j=None,
    )  # fmt: skip
    attempts = [nothing._replace(**fields) for fields in attempts]
    use = sum_job_use(attempts, create_ns=0, now_ns=500 * 10**9)
    assert (use.goodput, use.ettr) == (goodput, ettr)


def test_a_page_of_jobs_has_the_newest_that_are_not_over_and_the_families_asked_for(store):
    over, _, newest = (add(store) for _ in range(3))
    go(store, over.uid, JobState.CANCELLED)
    page = JobsPage(store, 1)
    samples = samples_of(page.text(["trainshed_job_gpus"], is_open=False))
    assert list(samples) == [("trainshed_job_gpus", PROJECT, str(newest.uid))]
    with pytest.raises(Refusal, match=r"family must be one of trainshed_job_info, .*, got 'jobs'"):
        page.text(["jobs"], is_open=False)


def test_names_of_jobs_are_cut_and_escaped(store):
    add(store, creator=HOSTILE + "x" * 500)
    text = JobsPage(store, 10).text([], is_open=True)
    [info] = [key for key in samples_of(text, open_families) if key[0] == "trainshed_job_info"]
    assert info[-1] == (HOSTILE + "x" * 500)[:LABEL_CHARS_MAX]


def test_a_page_of_jobs_without_a_database_asks_to_try_again():
    def fail(**_):
        raise StoreFault("away")

    page = JobsPage(SimpleNamespace(newest_open=fail), 10)
    with pytest.raises(Refusal, match="try again in a moment"):
        page.text([], is_open=False)


def test_figures_that_cannot_be_read_now_or_ever_end_no_thread(store, caplog):
    def fail(error):
        def progress():
            raise error

        return progress

    for error, records in ((Refusal(Code.UNAVAILABLE, "later"), 0), (ValueError("a bug"), 1)):
        with pytest.raises(Refusal, match="try again in a moment"):
            JobsPage(store, 10, JobFigures(progress=fail(error))).text([], is_open=False)
        assert len(caplog.records) == records


def test_a_database_that_hangs_delays_one_page_of_jobs_only(monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(job_page, "READ_S_MAX", 0.05)
    page = JobsPage(SimpleNamespace(newest_open=lambda **_: answers.wait() and ()), 10)
    for _ in range(2):
        with pytest.raises(Refusal, match="try again in a moment"):
            page.text([], is_open=False)
        monkeypatch.setattr(job_page, "READ_S_MAX", 600.0)
    answers.set()
    deadline_s = time.monotonic() + 60
    while "trainshed_job_info" not in text_or_refusal(page):
        assert time.monotonic() < deadline_s, "the page is not back"


def text_or_refusal(page):
    try:
        return page.text([], is_open=False)
    except Refusal as refusal:
        return str(refusal)
