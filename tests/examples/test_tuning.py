"""The trainer of the tuning example alone; and the whole example, through a server of its own."""

import ast
import contextlib
import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from e2e.support import wait_until
from examples.cluster import EXAMPLES, TRAINSHED, needs, run

FOLDER = EXAMPLES / "tuning"
EPOCHS = 50
#: More than any machine comes to before somebody has looked.
ENDLESS = 100_000_000
DEMO = FOLDER / "demo.sh"
TIMEOUT_S = 540


def trial(tmp_path, *args, **env):
    """The trainer as a trial starts it, with its own metric file."""
    environ = {**os.environ, "AIP_MODEL_DIR": str(tmp_path / "model"), **env}
    environ |= {"CLOUD_ML_HP_METRIC_FILE": str(tmp_path / "metrics" / "output.metrics")}
    return subprocess.run(
        [sys.executable, "-m", "trainer.task", *map(str, args)],
        cwd=FOLDER,
        env={**environ, "CLOUD_ML_TRIAL_ID": "7"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def reports(tmp_path):
    lines = (tmp_path / "metrics" / "output.metrics").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def without_hypertune(tmp_path):
    """A folder before all others in which importing hypertune fails."""
    folder = tmp_path / "absent"
    folder.mkdir()
    (folder / "hypertune.py").write_text("raise ImportError('it is not installed')\n")
    return {"PYTHONPATH": str(folder)}


@needs("sklearn", "hypertune")
def test_googles_own_package_reports_every_epoch(tmp_path):
    done = trial(tmp_path, "--epochs", 3, "--learning_rate", "0.01", "--batch_size", "64.0")
    assert done.returncode == 0, done.stderr
    rows = reports(tmp_path)
    assert [(row["global_step"], row["trial"]) for row in rows] == [
        ("1", "7"), ("2", "7"), ("3", "7"),
    ]  # fmt: skip
    last = float(rows[-1]["accuracy"])
    assert last > 0.7
    assert json.loads((tmp_path / "model" / "result.json").read_text()) == {"accuracy": last}
    assert (tmp_path / "model" / "model.npz").stat().st_size > 0


@pytest.mark.slow
@needs("sklearn")
def test_without_it_the_same_is_reported_by_our_library(tmp_path, without_hypertune):
    done = trial(tmp_path, "--epochs", 2, **without_hypertune)
    assert done.returncode == 0, done.stderr
    rows = reports(tmp_path)
    assert [row["global_step"] for row in rows] == ["1", "2"]
    assert set(rows[0]) == {"accuracy", "global_step", "checkpoint_path", "timestamp", "trial"}


@pytest.mark.full
@pytest.mark.slow
@needs("sklearn")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_is_tuned_makes_a_difference(tmp_path, optimizer):
    good = {"sgd": "0.05", "adam": "0.005"}[optimizer]
    last = []
    for rate in (good, "0.0001"):
        args = ("--optimizer", optimizer, "--learning_rate", rate, "--epochs", 2)
        done = trial(tmp_path, *args, "--batch_size", 128)
        assert done.returncode == 0, done.stderr
        last.append(json.loads((tmp_path / "model" / "result.json").read_text())["accuracy"])
    assert last[0] > last[1] + 0.2


def parameters(document):
    for parameter in document:
        yield parameter["parameterId"]
        for condition in parameter.get("conditionalParameterSpecs", ()):
            yield from parameters([condition["parameterSpec"]])


def test_the_study_is_the_same_in_both_dialects():
    vertex = yaml.safe_load((FOLDER / "hpt.yaml").read_text())
    ml = yaml.safe_load((FOLDER / "config.yaml").read_text())["trainingInput"]["hyperparameters"]
    names = [parameter["parameterName"] for parameter in ml["params"]]
    assert list(parameters(vertex["studySpec"]["parameters"])) == [*names, "momentum"]
    assert (ml["maxTrials"], ml["maxParallelTrials"]) == (24, 2)
    assert (vertex["maxTrialCount"], vertex["parallelTrialCount"]) == (24, 2)
    assert ml["hyperparameterMetricTag"] == vertex["studySpec"]["metrics"][0]["metricId"]


def test_every_tuned_parameter_is_an_argument_of_the_trainer():
    """Read from its source: to start it imports scikit-learn, for seconds of a processor."""
    vertex = yaml.safe_load((FOLDER / "hpt.yaml").read_text())
    names = {f"--{name}" for name in parameters(vertex["studySpec"]["parameters"])}
    assert names <= set(added_arguments((FOLDER / "trainer/task.py").read_text()))


def added_arguments(source):
    """Yield the first word of each call of add_argument."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value), *_]):
                yield value


@pytest.mark.full
@pytest.mark.slow
@needs("sklearn")
def test_the_configuration_runs_once_without_a_service(tmp_path):
    outcome = run("tuning", tmp_path, args=["--epochs", 3])
    assert outcome.code == 0, outcome.story()
    assert outcome.last_line.startswith("validation accuracy 0.")


@dataclass(frozen=True)
class Demo:
    """How ``make demo-tuning`` went, with flags of its own: what it said, and what it left."""

    code: int
    output: str
    data: Path

    def trials(self):
        with (self.data / "digits.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def model(self, trial):
        return self.data / "buckets/my-bucket/digits" / trial / "model" / "model.npz"


@pytest.fixture
def demo(tmp_path):
    """Run it in a folder of its own; at the end nothing of it runs any more."""
    path = os.pathsep.join([str(TRAINSHED.parent), os.environ["PATH"]])
    cache = str(tmp_path / "cache")
    environ = {**os.environ, "PATH": path, "NO_COLOR": "1", "TRAINSHED_CACHE_DIR": cache}

    def run_with(*flags):
        done = subprocess.run(
            [DEMO, tmp_path / "data", *map(str, flags)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Demo(code=done.returncode, output=done.stdout, data=tmp_path / "data")

    yield run_with
    wait_until(lambda: not list(left(cache)), lambda: f"left behind: {list(left(cache))}")
    assert "Traceback" not in (tmp_path / "data" / "serve.log").read_text()


def left(cache):
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TRAINSHED_CACHE_DIR") == cache:
                yield process.cmdline()


SERVICE = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs("sklearn", "hypertune", "plotly"),
]


class TestDemo:
    pytestmark = SERVICE

    def test_the_study_finds_a_good_network_and_writes_its_report(self, demo):
        outcome = demo("--max-trial-count", 8)
        assert outcome.code == 0, outcome.output
        assert "state: SUCCEEDED" in outcome.output
        trials = outcome.trials()
        assert [trial["trial"] for trial in trials] == [str(number) for number in range(1, 9)]
        assert {trial["state"] for trial in trials} == {"SUCCEEDED"}
        assert max(float(trial["metrics.accuracy"]) for trial in trials) > 0.9
        assert "importances" in (outcome.data / "digits.html").read_text().lower()
        for trial in trials:
            assert bool(trial["parameters.momentum"]) == (trial["parameters.optimizer"] == "sgd")
            has_model = outcome.model(trial["trial"]).is_file()
            assert int(trial["step"]) == EPOCHS or not has_model
            assert has_model or trial["stopped_early"] == "true"

    def test_trials_that_cannot_become_good_are_stopped_early(self, demo, tmp_path):
        outcome = demo("--config", self.in_fixed_order(tmp_path / "grid.yaml"))
        assert outcome.code == 0, outcome.output
        rates = [float(trial["parameters.learning_rate"]) for trial in outcome.trials()]
        steps = [int(trial["step"]) for trial in outcome.trials()]
        assert rates == [0.01, 0.011, 0.012, 1e-6, 1.1e-6]
        assert steps[:3] == [EPOCHS] * 3, outcome.output
        assert max(steps[3:]) < ENDLESS, outcome.output
        assert {trial["state"] for trial in outcome.trials()} == {"SUCCEEDED"}

    def in_fixed_order(self, path):
        """The study as a grid: three good learning rates, and then two that are far too small.

        With those it trains until it is stopped, however fast the machine is.
        """
        document = yaml.safe_load((FOLDER / "hpt.yaml").read_text())
        small = {"values": [1e-6, 1.1e-6]}
        values = {"values": [*small["values"], 0.01, 0.011, 0.012], "defaultValue": 0.01}
        epochs = {"parameterId": "epochs", "categoricalValueSpec": {"values": [str(ENDLESS)]}}
        condition = {"parentDiscreteValues": small, "parameterSpec": epochs}
        rate = {"parameterId": "learning_rate", "discreteValueSpec": values}
        rate["conditionalParameterSpecs"] = [condition]
        document["studySpec"] |= {"algorithm": "GRID_SEARCH", "parameters": [rate]}
        document |= {"maxTrialCount": 5, "parallelTrialCount": 1}
        pool = document["trialJobSpec"]["workerPoolSpecs"][0]
        pool["pythonPackageSpec"]["args"] = ["--hidden_units", "64", "--batch_size", "32"]
        path.write_text(yaml.safe_dump(document))
        return path
