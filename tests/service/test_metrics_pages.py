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

from service.metric_samples import HOSTILE, Away, gpus, names_of, samples_of
from store.builders import PROJECT, add, place
from trainshed.api.api_names import APIS
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Node
from trainshed.model.status import JobError, JobState
from trainshed.service.telemetry import counters as counting
from trainshed.service.telemetry import families, server_page
from trainshed.service.telemetry.counters import USUAL_ENDS, Counters
from trainshed.service.telemetry.families import FAMILIES
from trainshed.service.telemetry.family import Distribution, Family, FamilyKind
from trainshed.service.telemetry.installation import NODES_MAX
from trainshed.service.telemetry.job_families import JOB_FAMILIES
from trainshed.service.telemetry.page import write_page
from trainshed.service.telemetry.server_page import HeldTime, MetricsPage, PageSources, StoreReader
from trainshed.service.telemetry.store_counts import find_cause
from trainshed.store.base import StoreFault
from trainshed.store.records.steps import CommittedChange

DOCS = Path(__file__).parents[2] / "docs/reference/telemetry.md"
ALL = (*FAMILIES, *JOB_FAMILIES)
#: The base units of Prometheus, and what is counted without a unit.
UNITS = ("seconds", "bytes", "ratio", "watts", "celsius", "joules", "info")


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
