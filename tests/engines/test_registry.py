"""Engines are found by name, also those of other people's packages."""

import sys
import tomllib
from pathlib import Path

import pytest

from trainshed.config import Settings
from trainshed.config.engine import engine_of
from trainshed.engines.base import EngineContext
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.registry import GROUP, LOCAL, open_engine
from trainshed.model.faults import UsageFault

MODULE = """
from trainshed.model.faults import UsageFault
from trainshed.testing.fake_engine import FakeEngine

def make(context):
    if unknown := set(context.options) - {"queue"}:
        raise UsageFault(f"cloudy has no option {min(unknown)}")
    engine = FakeEngine(())
    engine.name = "cloudy"
    engine.context = context
    return engine
"""


@pytest.fixture
def cloudy(tmp_path, monkeypatch):
    """Another package, as pip would have installed it."""
    (tmp_path / "cloudy_engine.py").write_text(MODULE)
    info = tmp_path / "cloudy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ncloudy = cloudy_engine:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "cloudy"
    sys.modules.pop("cloudy_engine", None)


def test_another_package_brings_an_engine_with_settings_of_its_own(cloudy, tmp_path):
    settings = Settings(data_dir=tmp_path, engine=cloudy, engine_options={"queue": "gpu"})
    engine = engine_of(settings)
    assert engine.name == "cloudy"
    assert engine.context == EngineContext(
        jobs_dir=tmp_path / "jobs", buckets=tmp_path / "buckets", options={"queue": "gpu"}
    )
    with pytest.raises(UsageFault, match="cloudy has no option colour"):
        engine_of(Settings(data_dir=tmp_path, engine=cloudy, engine_options={"colour": 1}))


@pytest.mark.usefixtures("cloudy")
def test_an_unknown_name_is_refused_with_those_there_are(tmp_path):
    context = EngineContext(jobs_dir=tmp_path, buckets=tmp_path)
    with pytest.raises(UsageFault, match=r"no engine 'slum'; installed are: cloudy.*, local"):
        open_engine("slum", context)


def test_the_local_engine_is_the_default_and_takes_no_options(tmp_path):
    settings = Settings(data_dir=tmp_path, container_runtime="none", fake_gpus=1)
    engine = engine_of(settings)
    assert isinstance(engine, LocalEngine)
    assert engine.fleet()[0].gpu_alias["NVIDIA_TESLA_T4"] == "any"
    assert not engine.traits.containers.runtime
    assert engine.traits.python == sys.executable
    with pytest.raises(UsageFault, match=r"\[fleet\] and \[hangs\]"):
        engine_of(Settings(data_dir=tmp_path, engine_options={"slots": 1}))


def test_what_is_known_without_metadata_is_what_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][GROUP] == {LOCAL.name: LOCAL.value}
