"""What nodes run from: the same whenever it is made, small, and for older Pythons too."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from trainshed.engines.warden import archive
from trainshed.engines.warden.archive_syntax import imports_of, rewritten

PYTHONS = Path.home() / ".pyenv/versions"
VERSIONS = ("3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0")
#: Imports all that lies in an archive, and says what was not of the standard library or of ours.
IMPORTS = """
import importlib, sys, zipfile
place = sys.argv[1]
sys.path.insert(0, place)
sys.path.append(place + "/newer")
for name in sorted(zipfile.ZipFile(place).namelist()):
    if name != "__main__.py" and name.startswith("trainshed/"):
        importlib.import_module(name[:-3].replace("/", ".").replace(".__init__", ""))
known = getattr(sys, "stdlib_module_names", None)
if known is not None:
    tops = {name.partition(".")[0] for name in sys.modules}
    print(sorted(tops - set(known) - {"__main__", "__mp_main__", "trainshed", "tomllib"}))
"""


@pytest.mark.parametrize("build", [archive.build, archive.library])
def test_two_builds_give_the_same_bytes_under_a_megabyte(build):
    first = build()
    build.cache_clear()
    assert build() == first
    assert len(first.data) < 1 << 20


def test_its_name_is_its_content():
    warden, library = archive.build(), archive.library()
    assert warden.name.startswith("warden-")
    assert warden.name.endswith(".pyz")
    assert library.name.startswith("library-")
    assert library.name.endswith(".zip")
    assert len({warden.name, library.name}) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_from_3_9_on_imports_all_of_it(tmp_path, version):
    python = PYTHONS / version / "bin/python"
    if not python.exists():
        pytest.skip(f"no Python {version} is here")
    place = tmp_path / "warden.pyz"
    place.write_bytes(archive.build().data)
    argv = [str(python), "-I", "-S", "-W", "error::SyntaxWarning", "-c", IMPORTS, str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"", "[]"}


def test_the_library_brings_the_reducer_to_programs(tmp_path):
    place = tmp_path / "library.zip"
    place.write_bytes(archive.library().data)
    argv = [sys.executable, "-P", "-m", "trainshed.reduction", "--help"]
    env = {"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    code = "import trainshed_trainer, trainshed; print(trainshed_trainer.__file__)"
    completed = subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert completed.stdout.startswith(str(place))


def test_nothing_of_other_engines_or_of_the_server_is_in_it():
    names = zipfile.ZipFile(io.BytesIO(archive.build().data)).namelist()
    ours = {name.split("/")[1] for name in names if name.startswith("trainshed/")}
    assert ours <= {"__init__.py", "engines", "files", "model"}
    assert not [name for name in names if "/local/" in name or "/slurm/" in name]


def test_newer_syntax_becomes_older():
    source = (
        '"""A word."""\n'
        "from types import NoneType\n"
        "from typing import Final\n"
        "Either = _One | 'Two' | None\n".replace("'Two'", "Two")
        + "FLAGS: Final = A_FLAG | B_FLAG\n"
        "class Row:\n"
        '    """Only words."""\n'
        "class More:\n"
        "    name: str | None = None\n"
        '    def of(self, other: "int | None") -> "str | None":\n'
        "        return isinstance(other, int | str) and zip(a, b, strict=True)\n"
    )
    text = rewritten(source, "x.py")
    assert "Either = _Union[_One, Two, None]" in text
    assert "FLAGS: Final = A_FLAG | B_FLAG" in text
    assert "name: _Union[str, None] = None" in text
    assert "'_Union[int, None]'" in text
    assert "isinstance(other, (int, str))" in text
    assert "word" not in text
    assert "from trainshed.engines.warden.older import zip" in text


def test_what_has_no_older_form_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"x\.py:2: Python 3\.9 has no match"):
        rewritten("def f(x):\n    match x:\n        case 1:\n            pass\n", "x.py")


def test_imports_for_types_alone_are_none():
    source = "if TYPE_CHECKING:\n    import a\ndef f():\n    from b.c import d\nimport e\n"
    assert imports_of(source, "x.py") == {"b.c", "b.c.d", "e"}
