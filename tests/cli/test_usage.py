"""``trainshed usage`` prints hours, shares and costs, and says what they lack."""

import csv
import io

import pytest

from cli.standin import StandIn

COST = {"amount": 1234.5, "currency": "EUR", "at_least": False, "lacking": [],
        "parts": {"productive": 925.9, "idle": 308.6},
        "source": "own.toml", "date": "2026-11-01"}  # fmt: skip
UNPRICED = {"amount": None, "currency": None, "at_least": True, "parts": {}, "source": None,
            "date": None, "lacking": ["no price of my-own is known"]}  # fmt: skip
ADA = {"key": "ada", "jobs": 2, "gpu_seconds": {"productive": 27_000.0, "idle": 9000.0},
       "vcpu_seconds": {}, "energy_j": 7.2e6, "cost": COST, "other_costs": []}  # fmt: skip
BOB = {"key": "=bob", "jobs": 1, "gpu_seconds": {}, "vcpu_seconds": {"unknown": 3600.0},
       "energy_j": None, "cost": UNPRICED, "other_costs": []}  # fmt: skip
TOTAL = {"key": "total", "jobs": 3, "gpu_seconds": ADA["gpu_seconds"],
         "vcpu_seconds": BOB["vcpu_seconds"], "energy_j": 7.2e6, "other_costs": [],
         "cost": {**COST, "at_least": True, "lacking": UNPRICED["lacking"]}}  # fmt: skip
REPORT = {"by": "user", "since": "2026-11-01", "until": "2026-11-30", "rows": [ADA, BOB],
          "left_out": 0, "total": TOTAL, "fleet": {"gpu_seconds": {"held": 36_000.0,
          "free": 12_000.0}}}  # fmt: skip


@pytest.fixture
def usage(trainshed, home):
    def run(*words, report=REPORT):
        with StandIn(lambda *_: (200, report)) as server:
            server.note(home / "data")
            result = trainshed("usage", *words)
        assert result.code == 0, result.err
        [(_, path, _, _)] = server.requests
        assert path == "/trainshed/v1/usage"
        return result, server.queries[0].split("&")

    return run


def test_a_table_has_hours_shares_and_costs(usage):
    run, query = usage("--by", "user", "--since", "yesterday", "--project", "demo")
    assert {"by=user", "since=yesterday", "project=demo"} <= set(query)
    head, _, ada, bob, total = run.out.splitlines()
    assert " ".join(head.split()) == "USER JOBS GPU-H PRODUCTIVE IDLE VCPU-H KWH COST IDLE COST"
    assert " ".join(ada.split()) == "ada 2 10.00 75.0 % 25.0 % 2.00 1,234 EUR 308.6 EUR"
    assert bob.split() == ["=bob", "1", "1.00", "no", "price"]
    assert total.split()[-6:-2] == ["at", "least", "1,234", "EUR"]
    assert "no price of my-own is known: their cost is left out; set [prices] file" in run.err
    assert "costs by own.toml of 2026-11-01" in run.err
    assert "all GPUs, 13.3 hours: 75.0% held, 25.0% free" in run.err


def test_two_currencies_are_shown_beside_each_other(usage):
    both = {**ADA, "other_costs": [{**COST, "amount": 9.5, "currency": "USD"}]}
    run, _ = usage(report={**REPORT, "rows": [both]})
    assert "1,234 EUR + 9.50 USD  308.6 EUR + 308.6 USD" in run.out
    run, _ = usage("--format", "csv", report={**REPORT, "rows": [both]})
    (row,) = csv.DictReader(io.StringIO(run.out))
    assert (row["cost"], row["currency"], row["other_costs"]) == ("1234.5", "EUR", "9.5 USD")


def test_time_that_hung_has_a_column(usage):
    seconds = {"productive": 1800.0, "stalled": 5400.0}
    row = {**ADA, "gpu_seconds": seconds}
    run, _ = usage(report={**REPORT, "rows": [row], "total": {**TOTAL, "gpu_seconds": seconds}})
    assert "PRODUCTIVE  STALLED" in run.out
    assert "25.0 %      75.0 %" in run.out


def test_csv_has_every_use_and_no_formula(usage):
    run, _ = usage("--format", "csv")
    ada, bob = csv.DictReader(io.StringIO(run.out))
    assert (ada["user"], ada["gpu_idle_s"], ada["gpu_lost_s"], ada["energy_j"]) == (
        "ada", "9000.0", "0.0", "7200000.0")  # fmt: skip
    assert (ada["cost"], ada["currency"], ada["idle_cost"]) == ("1234.5", "EUR", "308.6")
    assert (bob["user"], bob["vcpu_unknown_s"], bob["cost"], bob["at_least"]) == (
        "'=bob", "3600.0", "", "True")  # fmt: skip


def test_a_job_has_its_user_instead_of_a_number_of_jobs(usage):
    job = {**ADA, "key": "demo/census", "user": "ada", "jobs": 1}
    total = {**TOTAL, "user": ""}
    report = {**REPORT, "by": "job", "rows": [job], "total": total}
    head, _, row, last = usage(report=report)[0].out.splitlines()
    assert head.split()[:2] == ["JOB", "USER"]
    assert row.split()[:3] == ["demo/census", "ada", "10.00"]
    assert last.split()[:2] == ["TOTAL", "10.00"]
    run, query = usage("--by", "job", "--format", "csv", report=report)
    assert "by=job" in query
    assert run.out.splitlines()[1].startswith("demo/census,ada,27000.0")


MACHINE = {"node": "n1", "more_holders": 2,
           "holders": [{"project": "demo", "user": user, "seconds": 3600.0 * hours, "idle_s": 0.0}
                       for user, hours in (("bob", 8), ("ada", 2), ("", 1), ("eve", 0.5))],
           }  # fmt: skip
GPU = {**ADA, **MACHINE, "key": "n1/3",
       "gpu": {"index": 3, "uuid": "GPU-aa", "type": "NVIDIA_H100"}}  # fmt: skip
CPUS = {**BOB, **MACHINE, "key": "n1", "gpu": None, "holders": [], "more_holders": 0}


def test_a_gpu_has_its_hours_and_its_users(usage):
    report = {**REPORT, "by": "gpu", "rows": [GPU, CPUS], "total": TOTAL}
    run, query = usage("--by", "gpu", report=report)
    assert "by=gpu" in query
    head, _, gpu, cpus, last = run.out.splitlines()
    assert head.split() == ["NODE", "GPU", "TYPE", "GPU-H", "PRODUCTIVE-H", "IDLE-H", "VCPU-H",
                            "KWH", "COST", "IDLE", "COST", "HELD", "BY"]  # fmt: skip
    assert gpu.split()[:6] == ["n1", "3", "NVIDIA_H100", "10.00", "7.50", "2.50"]
    assert gpu.endswith("demo/bob 8.00 h, demo/ada 2.00 h, demo/anonymous 1.00 h and 3 more")
    assert cpus.split() == ["n1", "1.00", "no", "price"]
    assert last.split()[:2] == ["TOTAL", "10.00"]
    rows = [*csv.DictReader(io.StringIO(usage("--format", "csv", report=report)[0].out))]
    assert [(row["node"], row["gpu"], row["uuid"], row["type"]) for row in rows] == [
        ("n1", "3", "GPU-aa", "NVIDIA_H100"),
        ("n1", "", "", ""),
    ]
    assert rows[0]["held_by"].startswith("demo/bob 8.00 h")
    by_node = {**report, "by": "node", "rows": [{**GPU, "gpu": None, "key": "n1"}]}
    assert usage("--by", "node", report=by_node)[0].out.split()[:2] == ["NODE", "JOBS"]


def test_json_is_what_the_server_said(usage):
    run, _ = usage("--format", "json")
    assert run.json == REPORT


def test_days_without_jobs_are_named(usage):
    run, _ = usage(report={**REPORT, "rows": [], "total": {**TOTAL, "cost": None}, "fleet": None})
    assert "no job held a machine from 2026-11-01 to 2026-11-30 (UTC)" in run.err
    assert not run.out
