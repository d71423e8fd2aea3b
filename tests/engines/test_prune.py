"""The cache of environments has a bound; what an attempt reads stays, whatever that is."""

import os
import sys
from dataclasses import replace

from engines.attempts import KEY, ended, engine_at, marked, order, texts, until
from engines.support import FOREVER
from engines.wheels import make_wheel
from trainshed.engines.environments import prune
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.launch_plan import Environment

BYTES = 1 << 16


def make_entry(root, name, used_s, *, says=f"{BYTES}\n"):
    """A folder of the cache with the file beside it."""
    (root / name).mkdir(parents=True)
    (root / name / "module.py").write_bytes(os.urandom(BYTES))
    beside = root / f"{name}.used"
    beside.write_text(says)
    for path in (root / name, beside):
        os.utime(path, (used_s, used_s))
    return root / name


def test_the_longest_unused_goes_first_in_all_projects(tmp_path):
    old = make_entry(tmp_path, "a" * 40, 1000)
    older = make_entry(tmp_path / "projects/7", "b" * 40, 500, says="")
    downloads = make_entry(tmp_path / "projects/8", "uv", 800)
    prune.prune(tmp_path, 3 * BYTES)
    assert [path.exists() for path in (old, older, downloads)] == [True, True, True]
    prune.prune(tmp_path, 2 * BYTES)
    assert [path.exists() for path in (old, older, downloads)] == [True, False, True]
    prune.prune(tmp_path, BYTES)
    assert [path.exists() for path in (old, older, downloads)] == [True, False, False]
    assert not list((tmp_path / "projects").glob("*/*")), "nor is anything else left of them"


def test_looking_at_it_is_no_use_of_it(tmp_path):
    make_entry(tmp_path, "a" * 40, 1000, says="")
    prune.prune(tmp_path, 10 * BYTES)
    beside = tmp_path / f"{'a' * 40}.used"
    assert beside.stat().st_mtime == 1000
    assert int(beside.read_text()) >= BYTES


def test_what_an_attempt_reads_stays_until_its_end(root, mark, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    engine = engine_at(root, cache_dir=tmp_path / "cache", environments_bytes_max=1)

    def launched(number, code):
        wheel = make_wheel(tmp_path / str(number), f"module{number}", "1.0")
        environment = Environment(python=sys.executable, packages=(str(wheel),))
        key = AttemptKey(KEY.uid + number, 1)
        engine.launch(key, replace(marked(mark, code), environment=environment), ())
        return key

    def homes():
        return {path.name for path in (tmp_path / "cache").glob("*/module*.py")}

    long = launched(1, FOREVER)
    until(engine, Phase.READY, key=long)
    second = launched(2, "import module2; print(module2.__version__)")
    ended(engine, second)
    assert texts(root, key=second)[-1:] == ["1.0"]
    assert homes() == {"module1.py", "module2.py"}
    engine.stop(long, order(0))
    ended(engine, long)
    third = launched(3, "pass")
    ended(engine, third)
    assert homes() == {"module3.py"}
