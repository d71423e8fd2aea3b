"""Engines are found by name, also those of other people's packages."""

import sys
import tomllib
from pathlib import Path

import pytest

from trainshed.config import Settings, load_settings
from trainshed.config.engine import engines_of
from trainshed.engines.base import EngineContext
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.registry import GROUP, OWN, open_engine
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
    engine = engines_of(settings).find_by_name("cloudy")
    assert engine.context == EngineContext(
        jobs_dir=tmp_path / "jobs",
        name="cloudy",
        installation=(tmp_path / "installation").read_text(),
        buckets=tmp_path / "buckets",
        options={"queue": "gpu"},
    )
    with pytest.raises(UsageFault, match="cloudy has no option colour"):
        engines_of(Settings(data_dir=tmp_path, engine=cloudy, engine_options={"colour": 1}))


def tables(tmp_path, text, **flags):
    path = tmp_path / "config.toml"
    path.write_text('[fleet]\ncontainer_runtime = "none"\n' + text)
    return load_settings(path, {"TRAINSHED_DATA_DIR": str(tmp_path)}, flags)


BOTH = """
[[engine]]
name = "here"
kind = "local"
regions = ["us-central1"]
[[engine]]
kind = "cloudy"
queue = "gpu"
labels = { trainshed-slurm-qos = "low" }
environments = { torch = "/opt/torch/bin/python" }
"""


@pytest.mark.usefixtures("cloudy")
def test_a_server_runs_with_several_engines_in_their_order(tmp_path):
    engines = engines_of(tables(tmp_path, BOTH))
    assert list(engines.served) == ["here", "cloudy"]
    assert isinstance(engines.find_by_name(""), LocalEngine)
    assert engines.served["here"].regions == ("us-central1",)
    assert engines.resolve_wishes("cloudy", {}) == {"trainshed-slurm-qos": "low"}
    assert engines.find_by_name("cloudy").context.environments == {"torch": "/opt/torch/bin/python"}
    only = engines_of(tables(tmp_path, BOTH, engine=["cloudy"]))
    assert list(only.served) == ["cloudy"]
    # attempts of those left out are nobody else's: they stay as they are
    assert "--engine" in only.failed.popitem()[1].message
    with pytest.raises(UsageFault, match="must be one of here, cloudy, got 'moon'"):
        engines_of(tables(tmp_path, BOTH, engine=["moon"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"claim": "c"}, "spool"),
        ({"spool": "/s"}, "claim"),
        ({"spool": "/s", "claim": "c", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_setting_of_kubernetes_is_named(tmp_path, settings, message):
    with pytest.raises(UsageFault, match=message):
        engines_of(Settings(data_dir=tmp_path, engine="kubernetes", engine_options=settings))


def test_kubernetes_refuses_interpreters_of_nodes(tmp_path):
    rows = "kind = 'kubernetes'\nspool = '/s'\nclaim = 'c'\nenvironments = { x = '/x/python' }"
    with pytest.raises(UsageFault, match="no setting environments, because pods run images"):
        engines_of(tables(tmp_path, f"[[engine]]\n{rows}"))


@pytest.mark.usefixtures("cloudy")
def test_a_server_runs_without_an_engine_that_cannot_be_made(tmp_path):
    engines = engines_of(tables(tmp_path, BOTH.replace("queue", "colour")))
    assert list(engines.served) == ["here"]
    assert "no option colour" in engines.check_healths()["cloudy"].message
    engines = engines_of(tables(tmp_path, BOTH.replace('"cloudy"', '"moon"')))
    assert "got 'moon'" in engines.check_healths()["moon"].message
    alone = BOTH.replace("queue", "colour")
    with pytest.raises(UsageFault, match="no option colour"):
        engines_of(tables(tmp_path, alone, engine=["cloudy"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[engine]]\nname = 'x'", "has no kind"),
        ("[[engine]]\nkind = 'local'\nslots = 3", "the key 'slots'"),
        ("[[engine]]\nkind = 'local'\n[[engine]]\nkind = 'local'", "another engine named"),
        ("[[engine]]\nkind = 'a'\nname = 'A b'", "a lower-case letter"),
        ("[[engine]]\nkind = 'a'\nlabels = { team = 'x' }", "begin with"),
        ("[[engine]]\nkind = 'a'\nenvironments = { x = 'python' }", "paths of interpreters"),
    ],
)
def test_a_wrong_table_says_what_would_be_accepted(tmp_path, text, message):
    with pytest.raises(UsageFault, match=message):
        tables(tmp_path, text)


@pytest.mark.usefixtures("cloudy")
def test_an_unknown_name_is_refused_with_those_there_are(tmp_path):
    context = EngineContext(jobs_dir=tmp_path, buckets=tmp_path)
    with pytest.raises(UsageFault, match=r"engine must be one of cloudy.*, local.*, got 'slum'"):
        open_engine("slum", context)


def test_the_local_engine_is_the_default_and_takes_no_options(tmp_path):
    settings = Settings(data_dir=tmp_path, container_runtime="none", fake_gpus=1)
    engine = engines_of(settings).find_by_name("local")
    assert isinstance(engine, LocalEngine)
    assert engine.fleet()[0].gpu_alias["NVIDIA_TESLA_T4"] == "any"
    assert not engine.traits.containers.runtime
    assert engine.traits.python == sys.executable
    with pytest.raises(UsageFault, match=r"\[fleet\], \[isolation\] and \[hangs\]"):
        engines_of(Settings(data_dir=tmp_path, engine_options={"slots": 1}))


def test_what_is_known_without_metadata_is_what_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][GROUP] == {
        name: entry_point.value for name, entry_point in OWN.items()
    }
