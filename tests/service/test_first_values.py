"""Prometheus counts the first event of a series, also after a restart of the server."""

import json
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.first_values import ZERO_S
from trainshed.service.telemetry.server_page import MetricsPage, PageSources
from trainshed.store.base import StoreFault

PROMTOOL = shutil.which("promtool") or ""
EVERY_S = 15
ENDS = 'trainshed_jobs_finished_total{project="p",state="FAILED",cause="program"}'
SUBMITS = 'trainshed_jobs_submitted_total{project="p",dialect="ml_v1"}'
RUNS = "trainshed_job_run_seconds_count"


class Away:
    """A store whose database does not answer: the counters need none."""

    def clock_skew_s(self):
        raise StoreFault("away")


class Server:
    """The counters and the page of a server, with a clock of its own."""

    def __init__(self):
        self.counters = Counters()
        self.now_s = 0.0
        sources = PageSources(store=Away(), counters=self.counters)
        self.page = MetricsPage(sources, lambda: self.now_s)

    def scrape(self, series, wait_s=EVERY_S):
        """Return the value of a series, as promtool writes it, and let time pass."""
        text = self.page.text(is_scrape=True)
        self.now_s += wait_s
        return values_of(text).get(series, "_")


def values_of(text):
    return {
        write_name(sample): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def write_name(sample):
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def fail_job(server):
    server.counters.submitted("p", "ml_v1")
    server.counters.ran(5.0)
    server.counters.finished("p", "FAILED", "program")


def test_a_caller_that_does_not_scrape_gets_the_values_at_once():
    server = Server()
    fail_job(server)
    assert values_of(server.page.text())[ENDS] == 1
    assert server.scrape(ENDS, wait_s=0) == 0
    assert values_of(server.page.text())[ENDS] == 1


def test_a_series_is_0_for_all_that_scrape_within_some_seconds_and_never_again():
    server = Server()
    fail_job(server)
    assert [server.scrape(ENDS, wait_s=ZERO_S / 2) for _ in range(4)] == [0, 0, 1, 1]
    server.counters.finished("p", "FAILED", "program")
    assert server.scrape(ENDS) == 2


@pytest.mark.parametrize("series", [ENDS, SUBMITS, RUNS])
def test_a_series_that_begins_later_begins_at_0(series):
    server = Server()
    before = [server.scrape(series) for _ in range(3)]
    fail_job(server)
    assert before == ["_" if series != RUNS else 0] * 3
    assert [server.scrape(series) for _ in range(2)] == ([0, 1] if series != RUNS else [1, 1])


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (apt install prometheus)")
@pytest.mark.parametrize("series", [ENDS, SUBMITS, RUNS])
def test_prometheus_sees_the_first_event_of_a_project_and_the_first_after_a_restart(
    tmp_path, series
):
    """The job that failed while no server ran is counted before the first scrape."""
    server = Server()
    values = [server.scrape(series) for _ in range(4)]
    fail_job(server)
    values += [server.scrape(series) for _ in range(12)]
    restarted = Server()
    fail_job(restarted)
    values += [restarted.scrape(series) for _ in range(12)]

    def has_grown(end):  # within the 2.5 minutes before this sample
        return {
            "expr": f"sum(increase({series}[150s])) > bool 0.5",
            "eval_time": f"{EVERY_S * end}s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }

    inputs = [{"series": series, "values": " ".join(map(str, values))}]
    test = {
        "interval": f"{EVERY_S}s",
        "input_series": inputs,
        "promql_expr_test": [has_grown(10), has_grown(21)],
    }
    file = tmp_path / "test.json"  # which is YAML too
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + str(values)
