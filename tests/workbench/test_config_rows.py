"""The rows of an environment are added to a configuration file, which is never broken."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from trainshed.config import load_settings
from trainshed.model.faults import UsageFault
from trainshed.workbench.config_rows import add_rows, check_rows

ROWS = """\
[[environment]]
name = "old"
python = "/srv/old/bin/python"

[[image]]
runtime_version = "2.4"
environment = "old"\
"""


@pytest.fixture
def config(tmp_path):
    return tmp_path / "data/config.toml"


def environments(config):
    return [environment.name for environment in load_settings(config, {}, {}).environments]


def test_a_file_that_is_missing_is_made_and_only_its_owner_reads_it(config):
    check_rows(config, "old", "2.4")
    add_rows(config, ROWS)
    assert environments(config) == ["old"]
    assert config.stat().st_mode & 0o777 == 0o600


def test_the_text_of_a_file_is_kept_with_its_mode(config):
    config.parent.mkdir()
    text = "# ours\n[server]\nport = 9  # why\n[[environment]]\nname = 'a'\npython = '/a'"
    config.write_text(text)
    config.chmod(0o640)
    check_rows(config, "old", "2.4")
    add_rows(config, ROWS)
    assert config.read_text() == f"{text}\n\n{ROWS}\n"
    assert environments(config) == ["a", "old"]
    assert config.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[server\n", "cannot read the settings"),
        ("[[environment]]\nname = 'old'\npython = '/a'", "named 'old' already"),
        ("[[image]]\nruntime_version = '2.4'\nenvironment = 'default'", "'2.4' already"),
    ],
)
def test_a_file_that_cannot_take_the_rows_is_refused_before_anything_is_built(config, text, reason):
    config.parent.mkdir()
    config.write_text(text)
    with pytest.raises(UsageFault, match=reason):
        check_rows(config, "old", "2.4")


@pytest.mark.parametrize("text", ["[server\n", "environment = []\n"])
def test_a_file_that_the_rows_would_break_stays_as_it_was(config, text):
    config.parent.mkdir()
    config.write_text(text)
    with pytest.raises(UsageFault):
        add_rows(config, ROWS)
    assert config.read_text() == text
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]


def test_builds_that_end_at_once_all_add_their_rows(config):
    names = [f"e{n}" for n in range(12)]
    rows = [f'[[environment]]\nname = "{name}"\npython = "/srv/{name}"' for name in names]
    with ThreadPoolExecutor(len(rows)) as pool:
        list(pool.map(lambda text: add_rows(config, text), rows))
    assert sorted(environments(config)) == sorted(names)
