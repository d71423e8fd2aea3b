"""Each example is a story of its own: explained, configured, and free of our code."""

import ast
import sys
from pathlib import Path

import pytest
import yaml

from examples.cluster import EXAMPLES

FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
CONFIGS = sorted(EXAMPLES.glob("*/*.yaml"))
SOURCES = sorted(EXAMPLES.rglob("*.py"))
#: Folders that show the library for training programs; it works wherever they are started.
WITH_LIBRARY = {"torch-resume", "keras-resume", "lightning-resume", "tuning"}
#: Folders that show the server itself: they start one, and give it engines.
OF_THE_SERVER = {"console"}


def name(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def folder_of(source):
    return source.relative_to(EXAMPLES).parts[0]


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_every_example_says_how_to_run_it_and_what_one_sees(folder):
    text = (folder / "README.md").read_text()
    assert "## Run it" in text
    assert "## What you see" in text
    assert list(folder.glob("*.yaml")) or folder.name in {"gpu-check", "service", "console"}


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_no_example_knows_who_launched_it(source):
    modules = {module.partition(".")[0] for module in imported(source)}
    ours = {module for module in modules if module.startswith("trainshed")}
    allowed = {"trainshed_trainer"} if folder_of(source) in WITH_LIBRARY else set()
    allowed |= {"trainshed"} if folder_of(source) in OF_THE_SERVER else set()
    assert ours <= allowed


def test_the_trainer_of_the_printed_configurations_needs_nothing():
    for source in (EXAMPLES / "seed-configs").rglob("*.py"):
        assert {module.partition(".")[0] for module in imported(source)} <= sys.stdlib_module_names


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_every_configuration_has_exactly_one_primary(config):
    document = yaml.safe_load(config.read_text())
    if "trainingInput" in document:
        assert "masterType" in document["trainingInput"]
    else:
        spec = document.get("trialJobSpec", document)
        assert spec["workerPoolSpecs"][0]["replicaCount"] == 1
