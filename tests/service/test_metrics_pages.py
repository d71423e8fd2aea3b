"""The pages of metrics: what Prometheus reads of them, also while the database is away."""

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

from databases import new_database
from store.builders import PROJECT, add, go, place
from trainshed.api.api_names import APIS
from trainshed.engines.capabilities import GpuNow
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import GpuSample, GpuState, NodeGpu
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import Node
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobError, JobState
from trainshed.service.figures.answers import ProgressRow
from trainshed.service.telemetry import counters as counting
from trainshed.service.telemetry import families, job_page, server_page
from trainshed.service.telemetry.counters import USUAL_ENDS, Counters
from trainshed.service.telemetry.families import FAMILIES
from trainshed.service.telemetry.family import Distribution, Family, FamilyKind
from trainshed.service.telemetry.installation import NODES_MAX
from trainshed.service.telemetry.job_families import JOB_FAMILIES
from trainshed.service.telemetry.job_goodput import sum_job_use
from trainshed.service.telemetry.job_page import LABEL_CHARS_MAX, JobFigures, JobsPage
from trainshed.service.telemetry.page import write_page
from trainshed.service.telemetry.server_page import HeldTime, MetricsPage, PageSources, StoreReader
from trainshed.service.telemetry.store_counts import find_cause
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records.steps import CommittedChange
from trainshed.store.records.usage import AttemptUse, UsageRow

DOCS = Path(__file__).parents[2] / "docs/reference/telemetry.md"
ALL = (*FAMILIES, *JOB_FAMILIES)
#: The base units of Prometheus, and what is counted without a unit.
UNITS = ("seconds", "bytes", "ratio", "watts", "celsius", "joules", "info")
HOSTILE = 'a"b\\c\nd{}=,é'


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    yield store
    store.close()


def samples_of(text, parse=text_string_to_metric_families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def names_of(text):
    return {family.name for family in text_string_to_metric_families(text) if family.samples}


# the families

#: What Prometheus adds itself, and units that are not base units.
ENDINGS = ("total", "count", "sum", "bucket", "ms", "percent", "kb", "mb", "minutes")
MEASURED = {"duration", "wait", "start", "run", "power", "temperature", "energy"}


def faults_of(family):
    """The rules of Prometheus that a family breaks."""
    words = family.name.split("_")
    is_sorted = list(family.buckets) == sorted(set(family.buckets))
    unbounded = {"user", "creator", "image", "path", "message", "uid"} & set(family.labels)
    rules = {
        "the name begins with the product's": words[0] in ("trainshed", "process"),
        "the name has no suffix of samples": words[-1] not in ENDINGS,
        "a measured value has a base unit": not set(words) & MEASURED or words[-1] in UNITS,
        "the text is one line": family.text and "\n" not in family.text,
        "histograms alone have buckets": (family.kind is FamilyKind.HISTOGRAM)
        == bool(family.buckets),
        "at most 12 buckets, in order": len(family.buckets) <= 11 and is_sorted,
        "labels are bounded": not unbounded or family in JOB_FAMILIES,
    }
    return [(family.name, rule) for rule, holds in rules.items() if not holds]


def test_all_families_follow_the_rules_of_prometheus():
    assert [fault for family in ALL for fault in faults_of(family)] == []
    bad = Family(name="x_ms", kind=FamilyKind.GAUGE, text="a\nb", labels=("uid",), buckets=(2, 1))
    assert len(faults_of(bad)) == 6


def test_no_name_stands_for_two_families_of_a_page():
    for page in (FAMILIES, JOB_FAMILIES):
        assert len({family.sample_name for family in page}) == len(page)


def test_the_reference_lists_each_family_once_with_its_type_and_labels():
    names = {f"`{family.sample_name}`" for family in ALL}
    rows = [line.split("|")[1:4] for line in DOCS.read_text().splitlines() if line[:3] == "| `"]
    listed = [tuple(cell.strip() for cell in row) for row in rows]
    declared = [
        (
            f"`{family.sample_name}`",
            family.kind.value,
            ", ".join(f"`{label}`" for label in family.labels) or "-",
        )
        for family in ALL
    ]
    assert sorted(row for row in listed if row[0] in names) == sorted(declared)


# the formats

KINDS = (
    (Family(name="x", kind=FamilyKind.COUNTER, text="c", labels=("a",)), {(HOSTILE,): 2.0}),
    (Family(name="y", kind=FamilyKind.GAUGE, text="g"), {(): 0.1}),
    (
        Family(name="z_seconds", kind=FamilyKind.HISTOGRAM, text="h", buckets=(0.5, 2.0)),
        {(): Distribution((1, 0, 2), 3, 9.25)},
    ),
    (Family(name="s", kind=FamilyKind.SUMMARY, text="s"), {(): Distribution((), 3, 9.25)}),
)


@pytest.mark.parametrize("is_open", [False, True])
def test_both_formats_are_read_with_names_of_every_kind(is_open):
    parse = open_families if is_open else text_string_to_metric_families
    assert samples_of(write_page(KINDS, is_open=is_open), parse) == {
        ("x_total", HOSTILE): 2,
        ("y",): 0.1,
        ("z_seconds_bucket", "0.5"): 1,
        ("z_seconds_bucket", "2.0"): 1,
        ("z_seconds_bucket", "+Inf"): 3,
        ("z_seconds_count",): 3,
        ("z_seconds_sum",): 9.25,
        ("s_count",): 3,
        ("s_sum",): 9.25,
    }


@pytest.mark.parametrize("is_open", [False, True])
def test_all_families_are_read_in_both_formats(store, is_open):
    parse = open_families if is_open else text_string_to_metric_families
    text = MetricsPage(PageSources(store=store, counters=Counters())).text(is_open=is_open)
    assert ("trainshed_store_up",) in samples_of(text, parse)


# counters


def test_a_project_keeps_its_series_and_late_ones_are_counted_together():
    counters = Counters()
    for number in range(300):
        counters.submitted(f"p{number}", "ml_v1")
    counters.submitted("p0", "ml_v1")
    counts = dict(counters.read())[families.JOBS_SUBMITTED]
    assert len(counts) == counting.PROJECTS_MAX + 1
    assert (counts["p0", "ml_v1"], counts["other", "ml_v1"]) == (2, 300 - counting.PROJECTS_MAX)


def test_a_value_is_in_the_first_bucket_that_holds_it():
    counters = Counters()
    for seconds in (0.001, 0.0011, 999.0):
        counters.passed(seconds)
    [sample] = dict(counters.read())[families.SCHEDULING_PASS].values()
    assert (sample.counts[0], sample.counts[1], sample.counts[-1], sample.number) == (1, 1, 1, 3)


def test_counters_lose_nothing_between_threads():
    counters = Counters()
    run = [
        threading.Thread(target=lambda: [counters.restarted("infra") for _ in range(2000)])
        for _ in range(4)
    ]
    for thread in run:
        thread.start()
    for thread in run:
        thread.join()
    assert dict(counters.read())[families.JOB_RESTARTS]["infra",] == 8000


def test_notices_are_counted_and_begin_at_0():
    counters = Counters()
    first = dict(counters.read())[families.NOTICES]
    counters.noticed(is_honoured=False)
    assert first == {("yes",): 0, ("no",): 0}
    assert dict(counters.read())[families.NOTICES] == {("yes",): 0, ("no",): 1}


@pytest.mark.parametrize(
    ("state", "code", "has_run", "cause"),
    [
        (JobState.SUCCEEDED, None, True, "none"),
        (JobState.FAILED, 3, True, "program"),
        (JobState.FAILED, 9, False, "program"),
        (JobState.FAILED, 14, True, "infra"),
        (JobState.FAILED, 13, False, "infra"),
        (JobState.FAILED, None, True, "infra"),
        (JobState.CANCELLED, 4, True, "timeout"),
        (JobState.CANCELLED, 4, False, "waited"),
        (JobState.CANCELLED, 1, False, "cancelled"),
        (JobState.CANCELLED, None, False, "cancelled"),
    ],
)
def test_the_cause_of_an_end_is_that_of_its_error(state, code, has_run, cause):
    change = CommittedChange(
        uid=1, project="p", kind="jobs", state=state, attempt=1, at_ns=1, create_ns=0,
        is_study=False, ends=True, has_run=has_run,
        error=None if code is None else JobError(code=code, message="why"),
    )  # fmt: skip
    assert find_cause(change) == cause


# the server's page


def gpus(count, attempt=None):
    reading = GpuSample(
        at=None, used_bytes=1, use=0.5, power_w=300.0, energy_j=1e6, temperature_c=60,
        ecc_errors=0, throttled=(),
    )  # fmt: skip
    state = GpuState.HELD if attempt else GpuState.FREE
    return [
        GpuNow(
            gpu=NodeGpu(uuid=f"GPU-{n}", index=n, type="H100", memory_bytes=1, state=state),
            attempt=attempt, reading=reading, idle_s=1.0, driver="580",
        )
        for n in range(count)
    ]  # fmt: skip


def test_a_page_of_20_projects_and_8_gpus_has_at_most_600_series(store):
    counters = Counters()
    now = gpus(8)
    store.see_nodes("", [Node(name="n1", devices=tuple(status.gpu for status in now))])
    for number in range(300):
        add(store, project=f"p{number}")
    for number in range(300):
        for dialect in ("ml_v1", "aiplatform_v1"):
            counters.submitted(f"p{number}", dialect)
        for end in USUAL_ENDS:
            counters.finished(f"p{number}", *end)
        counters.held("n1", f"p{number}", 1.0, is_busy=True)
    for api in APIS:
        for status in (200, 400):
            counters.answered(api, status, 0.1)
    sources = PageSources(store=store, counters=counters, gpus_now=lambda: now)
    text = MetricsPage(sources).text()
    assert ("trainshed_gpu_power_watts", "n1", "7") in samples_of(text)
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 600


def test_counters_of_ends_and_of_failed_requests_begin_at_0_before_the_first_one(store):
    counters = Counters()
    counters.submitted("p", "ml_v1")
    counters.answered("native", 200, 0.1)
    samples = samples_of(MetricsPage(PageSources(store=store, counters=counters)).text())
    ends = dict.fromkeys(USUAL_ENDS, 0.0)
    name = "trainshed_jobs_finished_total"
    assert {key[2:]: n for key, n in samples.items() if key[:2] == (name, "p")} == ends
    assert samples["trainshed_http_requests_total", "native", "5xx"] == 0.0


def test_another_server_describes_only_itself(store):
    add(store)
    now = gpus(1)
    store.see_nodes("", [Node(name="n1", devices=(now[0].gpu,))])
    sources = PageSources(store=store, counters=Counters(), gpus_now=lambda: now)
    first = names_of(MetricsPage(sources).text())
    other = names_of(MetricsPage(replace(sources, is_leading=lambda: False)).text())
    whole = {"jobs", "queue_jobs", "queue_oldest_wait_seconds", "nodes", "node_replicas",
             "node_seen_timestamp_seconds", "node_gpus", "servers"}  # fmt: skip
    of_gpus = {name for name in first if name.startswith("trainshed_gpu_")}
    assert first - other == {f"trainshed_{name}" for name in whole} | of_gpus
    assert "trainshed_gpu_power_watts" in of_gpus, "servers on one machine share its GPUs"


def test_many_nodes_are_sums(store):
    store.see_nodes("", [Node(name=f"n{n}") for n in range(NODES_MAX + 1)])
    samples = samples_of(MetricsPage(PageSources(store=store, counters=Counters())).text())
    assert samples["trainshed_nodes", "READY"] == NODES_MAX + 1
    assert samples["trainshed_node_replicas", "", "READY"] == 0
    assert not [key for key in samples if key[0] == "trainshed_node_seen_timestamp_seconds"]


def test_the_job_that_holds_a_gpu_is_named_and_its_time_counted(store):
    job = place(store, add(store).uid)
    now = gpus(1, AttemptKey(int(job.uid), 1))
    store.see_nodes("", [Node(name="n1", devices=(now[0].gpu,))])
    clock = SimpleNamespace(now=0.0)
    sources = PageSources(store=store, counters=Counters(), gpus_now=lambda: now)
    held = HeldTime(sources, monotonic=lambda: clock.now)
    held.count()
    clock.now = 5.0
    held.count()
    samples = samples_of(MetricsPage(sources).text())
    info = ("trainshed_gpu_job_info", "n1", "0", PROJECT, str(job.uid), "", "1")
    assert samples[info] == 1
    assert samples["trainshed_gpu_held_seconds_total", "n1", PROJECT] == 5
    assert samples["trainshed_gpu_busy_seconds_total", "n1", PROJECT] == 5


def test_the_held_time_of_a_gpu_is_counted_by_the_leading_server_alone(store):
    job = place(store, add(store).uid)
    now = gpus(1, AttemptKey(int(job.uid), 1))
    store.see_nodes("", [Node(name="n1", devices=(now[0].gpu,))])
    clock, leader = SimpleNamespace(now=0.0), SimpleNamespace(number=0)
    pages, chores = [], []
    for number in range(2):
        sources = PageSources(
            store=store,
            counters=Counters(),
            gpus_now=lambda: now,
            is_leading=lambda own=number: leader.number == own,
        )
        pages.append(MetricsPage(sources))
        chores.append(HeldTime(sources, monotonic=lambda: clock.now))
    for clock.now in range(11):
        leader.number = int(clock.now > 4)
        for held in chores:
            held.count()
    key = ("trainshed_gpu_held_seconds_total", "n1", PROJECT)
    assert [samples_of(page.text())[key] for page in pages] == [4, 5]


def test_all_callers_within_a_second_get_one_reading(store):
    clock = SimpleNamespace(now=0.0)
    page = MetricsPage(PageSources(store=store, counters=Counters()), lambda: clock.now)
    first = page.text()
    add(store)
    assert page.text() == first
    clock.now = server_page.FRESH_S
    assert f'trainshed_jobs{{project="{PROJECT}",state="QUEUED"}} 1' in page.text()


def test_a_page_does_not_wait_for_a_writer_of_the_database(store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "trainshed.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        page = MetricsPage(PageSources(store=store, counters=Counters()))
        assert samples_of(page.text())["trainshed_store_up",] == 1


class Away:
    """A store whose database does not answer."""

    def __init__(self, fault=None):
        self.fault = fault
        self.answers = threading.Event()

    def clock_skew_s(self):
        return 0.0

    def nodes(self, **_):
        if self.fault:
            raise self.fault
        self.answers.wait()
        raise StoreFault("it was away")


@pytest.mark.parametrize("leads", [True, False])
def test_a_page_without_a_database_has_what_the_process_knows(leads):
    counters = Counters()
    counters.restarted("infra")
    store = Away(StoreFault("away"))
    page = MetricsPage(PageSources(store=store, counters=counters, is_leading=lambda: leads))
    samples = samples_of(page.text())
    assert samples["trainshed_store_up",] == 0
    assert samples["trainshed_job_restarts_total", "infra"] == 1


def test_a_database_that_hangs_delays_one_page_only(monkeypatch):
    monkeypatch.setattr(server_page, "STORE_S_MAX", 0.05)
    store = Away()
    reader = StoreReader(PageSources(store=store, counters=Counters()))
    assert reader.read() is None
    threads = threading.active_count()
    monkeypatch.setattr(server_page, "STORE_S_MAX", 600.0)
    began = time.monotonic()
    assert reader.read() is None
    assert time.monotonic() - began < 60
    assert threading.active_count() == threads
    store.answers.set()


# the page of jobs


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
