"""``--package-path`` as an sdist: the same code is the same bytes, and nothing of it is lost."""

import os
import tarfile

import pytest

from trainshed.model.faults import UsageFault
from trainshed.workbench.sdists import build_sdist


@pytest.fixture
def package(tmp_path):
    package = tmp_path / "project" / "trainer"
    for name in ("__init__.py", "task.py", "data/words.txt", "sub/__init__.py", ".hidden",
                 "__pycache__/task.pyc", ".git/config"):  # fmt: skip
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return package


def built(package, tmp_path, name):
    work = tmp_path / name
    work.mkdir()
    return build_sdist(package, work)


def test_an_sdist_holds_the_package_its_data_and_how_to_install_it(package, tmp_path):
    path = built(package, tmp_path, "work")
    assert path.name == "trainer-0.0.0.tar.gz"
    with tarfile.open(path) as archive:
        names = sorted(archive.getnames())
    assert names == [
        f"trainer-0.0.0/{name}"
        for name in ("PKG-INFO", "setup.py", "trainer/__init__.py", "trainer/data/words.txt",
                     "trainer/sub/__init__.py", "trainer/task.py")
    ]  # fmt: skip


def test_the_same_code_is_the_same_bytes_whenever_and_by_whomever_it_was_written(package, tmp_path):
    first = built(package, tmp_path, "first").read_bytes()
    os.utime(package / "task.py", (1, 1))
    (package / "task.py").chmod(0o700)
    assert built(package, tmp_path, "second").read_bytes() == first
    (package / "task.py").write_text("other")
    assert built(package, tmp_path, "third").read_bytes() != first


@pytest.mark.parametrize(
    ("name", "text"), [("nowhere", "is not a folder"), ("trainer/data", "has no __init__.py")]
)
def test_what_is_no_package_is_told(package, tmp_path, name, text):
    with pytest.raises(UsageFault, match=text):
        build_sdist(package.parent / name, tmp_path)


def test_a_project_that_does_not_build_is_told_in_the_builders_words(package, tmp_path):
    (package.parent / "setup.py").write_text("raise SystemExit('no such luck')\n")
    with pytest.raises(UsageFault, match="no such luck"):
        build_sdist(package, tmp_path)
    assert sorted(path.name for path in package.parent.iterdir()) == ["setup.py", "trainer"]
