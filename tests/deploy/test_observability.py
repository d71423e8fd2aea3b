"""The files of deploy/observability: every name in them is of a family, and each alert fires."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainshed.engines.local.devices import xids
from trainshed.model.explanation import Reason
from trainshed.model.gpus import GpuState
from trainshed.model.restarts import Cause
from trainshed.service.telemetry import families
from trainshed.service.telemetry.family import Family, FamilyKind
from trainshed.service.telemetry.job_families import JOB_FAMILIES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "observability"
PROMETHEUS = FOLDER / "prometheus"
HOW_TO = ROOT / "docs" / "how-to" / "alerts.md"
PROMTOOL = shutil.which("promtool") or ""
needs_promtool = pytest.mark.skipif(
    not PROMTOOL, reason="promtool is not installed (apt install prometheus)"
)
#: What Prometheus itself records.
_PROMETHEUS_NAMES = {"up"}
_NAME = re.compile(r"\b(trainshed[_:][a-zA-Z0-9_:]+|process_[a-z_]+|up)\b(?=[{\[ )*/<>=]|$)")
_MATCHER = re.compile(r'\b(state|reason|cause|honoured|code|result)(?:=|!=)"([^"]*)"')
#: The values that the server gives to labels with a closed set of them.
_LABEL_VALUES = {
    "state": {state.value for state in GpuState},
    "reason": {reason.value for reason in Reason},
    "cause": {cause.value for cause in Cause},
    "honoured": {"yes", "no"},
    "result": {"done", "refused"},
    "code": {"2xx", "3xx", "4xx", "5xx"},
}


def read_panels() -> list[dict[str, object]]:
    return json.loads((FOLDER / "grafana" / "trainshed.json").read_text())["panels"]


def list_panel_queries() -> Iterator[str]:
    for panel in read_panels():
        for target in panel.get("targets", ()):
            yield target["expr"]


def read_rules(file: str) -> list[dict[str, object]]:
    groups = yaml.safe_load((PROMETHEUS / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def list_sample_names(family: Family) -> set[str]:
    if family.kind is FamilyKind.HISTOGRAM:
        return {f"{family.name}_{end}" for end in ("bucket", "sum", "count")}
    return {family.sample_name}


def run_promtool(*arguments: str) -> None:
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_rules_and_alerts_use_names_that_the_server_or_a_rule_gives() -> None:
    recorded = {rule["record"] for rule in read_rules("rules.yml")}
    sample_names = set().union(*map(list_sample_names, (*families.FAMILIES, *JOB_FAMILIES)))
    queries = [
        *list_panel_queries(),
        *(rule["expr"] for file in ("rules.yml", "alerts.yml") for rule in read_rules(file)),
    ]

    used = {name for query in queries for name in _NAME.findall(query)}

    assert used - sample_names - recorded == _PROMETHEUS_NAMES
    assert len(used) > 30  # the pattern still reads the queries


def test_queries_and_unit_tests_of_alerts_select_values_that_the_server_gives_to_labels() -> None:
    alert_tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    texts = [
        *list_panel_queries(),
        *(rule["expr"] for file in ("rules.yml", "alerts.yml") for rule in read_rules(file)),
        *(series["series"] for test in alert_tests for series in test["input_series"]),
    ]

    selected = {pair for text in texts for pair in _MATCHER.findall(text)}

    assert {
        (label, value) for label, value in selected if value not in _LABEL_VALUES[label]
    } == set()
    assert {label for label, _ in selected} == set(_LABEL_VALUES)


@needs_promtool
def test_promtool_accepts_the_configuration_and_the_rules() -> None:
    run_promtool("check", "config", "prometheus.yml")
    run_promtool("check", "rules", "rules.yml", "alerts.yml")


@needs_promtool
def test_each_alert_fires_in_its_unit_test() -> None:
    tested = {
        test["alertname"]
        for group in yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
        for test in group["alert_rule_test"]
        if test["exp_alerts"]
    }

    run_promtool("test", "rules", "alerts_test.yml")

    assert tested == {rule["alert"] for rule in read_rules("alerts.yml")}


def test_the_alert_of_xids_has_the_xids_that_close_a_gpu() -> None:
    expression = next(
        rule["expr"] for rule in read_rules("alerts.yml") if rule["alert"] == "TrainshedGpuXid"
    )

    match = re.search(r'xid=~"([0-9|]+)"', expression)

    assert match is not None
    assert {int(xid) for xid in match[1].split("|")} == set(xids.CLOSING)


def test_each_alert_names_a_paragraph_of_the_how_to() -> None:
    headings = {
        line.lstrip("# ").lower()
        for line in HOW_TO.read_text().splitlines()
        if line.startswith("#")
    }

    for rule in read_rules("alerts.yml"):
        page, _, anchor = rule["annotations"]["help"].partition("#")
        assert page == HOW_TO.name
        assert anchor in headings, rule["alert"]


def test_panels_have_descriptions_and_ids_of_their_own() -> None:
    panels = read_panels()

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [p["title"] for p in panels if p["type"] != "row" and not p["description"]] == []


def test_compose_mounts_files_that_exist_and_listens_on_loopback_only() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]

    sources = [
        volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]

    assert [source for source in sources if not (FOLDER / source).exists()] == []
    addresses = re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)
    assert set(addresses) == {"127.0.0.1"}
