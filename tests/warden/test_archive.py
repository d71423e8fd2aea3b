"""What nodes run from: the same whenever it is made, small, and for older Pythons too."""

import ast
import dataclasses
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.record.records import Record
from trainshed.engines.supervise.record.spec import AttemptSpec, PreparerAnswer, ReplicaSpec
from trainshed.engines.warden import archive, compiled, started
from trainshed.engines.warden.archive_words import archive_words
from trainshed.model.attempt import ReplicaExit, Report
from trainshed.model.launch_plan import Environment

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


#: In `make test` the oldest and the newest; what works in both works between them.
@pytest.mark.parametrize(
    "version",
    [
        VERSIONS[0],
        *(pytest.param(version, marks=pytest.mark.full) for version in VERSIONS[1:-1]),
        VERSIONS[-1],
    ],
)
def test_every_python_from_3_9_on_imports_all_of_it(tmp_path, version):
    python = PYTHONS / version / "bin/python"
    if not python.exists():
        pytest.skip(f"no Python {version} is here: install it with pyenv")
    place = tmp_path / "warden.pyz"
    place.write_bytes(archive.build().data)
    argv = [str(python), "-I", "-S", "-W", "error::SyntaxWarning", "-c", IMPORTS, str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"", "[]"}


#: What stays out of the memory of processes that live as long as an attempt.
REAPERS_LACK = {"collections", "contextlib", "enum", "functools", "re", "signal", "typing"}
MODULES = """
import sys
sys.path.insert(0, sys.argv[1])
import trainshed.engines.warden.main
print(*sys.modules)
import trainshed.engines.warden.warden
print(*sys.modules)
"""


def test_a_reaper_and_a_warden_import_little(tmp_path):
    place = tmp_path / "warden.pyz"
    place.write_bytes(archive.build().data)
    argv = [sys.executable, "-I", "-S", "-c", MODULES, str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    of_reaper, of_warden = (set(line.split()) for line in done.stdout.splitlines())
    assert not REAPERS_LACK & of_reaper
    assert not {"dataclasses", "hashlib", "socket", "subprocess", "zlib"} & of_warden


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


@pytest.mark.parametrize("cut", [None, 0, 8, 5000, -1])
def test_compiled_modules_that_are_damaged_are_removed_and_not_used(tmp_path, cut):
    place = tmp_path / "warden.pyz"
    place.write_bytes(archive.build().data)
    modules = Path(started.compiled_path(str(place)))
    compiled.compile_archive(str(place), str(modules))
    modules.write_bytes(modules.read_bytes()[:cut])
    argv = [*archive_words(sys.executable, str(place)), "no-program"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "must be attempt, next, task, prepare or gpus, got no-program" in done.stderr
    assert modules.exists() == (cut is None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts programs as another user: use sudo")
def test_compiled_modules_that_only_the_archive_s_owner_can_read_are_not_needed():
    """As in a container whose user is not that of the launcher."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        place = Path(folder, "warden.pyz")
        place.write_bytes(archive.build().data)
        compiled.compile_archive(str(place), started.compiled_path(str(place)))
        argv = [*archive_words("/usr/bin/python3", str(place)), "no-program"]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, user=65534, extra_groups=[]
        )
    assert "must be attempt, next, task, prepare or gpus, got no-program" in done.stderr


def test_nothing_of_other_engines_or_of_the_server_is_in_it():
    names = zipfile.ZipFile(io.BytesIO(archive.build().data)).namelist()
    ours = {name.split("/")[1] for name in names if name.startswith("trainshed/")}
    assert ours <= {"__init__.py", "engines", "files", "model"}
    assert not [name for name in names if "/local/" in name or "/slurm/" in name]


@pytest.mark.parametrize("build", [archive.build, archive.library])
def test_sources_in_it_are_written_for_python_3_9(build):
    too_new = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in parse_modules(build())
        for node in ast.walk(tree)
        if is_newer_than_3_9(node)
    ]
    assert too_new == []


def parse_modules(bundle: archive.Archive):
    """Raises SyntaxError for what the grammar of 3.9 does not have."""
    with zipfile.ZipFile(io.BytesIO(bundle.data)) as file:
        for name in file.namelist():
            yield name, ast.parse(file.read(name), name, feature_version=(3, 9))


def is_newer_than_3_9(node: ast.AST) -> bool:
    match node:
        case ast.Match() | ast.TryStar():
            return True
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, ast.BinOp()]):
            return True
        case ast.Call(func=ast.Name("zip"), keywords=[_, *_]):
            return True
        case ast.Call(func=ast.Name("dataclass"), keywords=options):
            return any(option.arg in {"slots", "kw_only"} for option in options)
        case ast.ImportFrom(module="typing" | "types", names=names):
            return any(alias.name in {"NoneType", "Self", "UnionType"} for alias in names)
    return False


@pytest.mark.parametrize(
    "line",
    [
        "match x:\n    case 1:\n        pass",
        "isinstance(x, int | str)",
        "zip(a, b, strict=True)",
        "@dataclass(frozen=True, slots=True)\nclass Row:\n    pass",
        "from typing import Self",
    ],
)
def test_what_3_9_lacks_is_recognised(line):
    assert any(map(is_newer_than_3_9, ast.walk(ast.parse(line))))


@pytest.mark.parametrize(
    "kind",
    [AttemptSpec, ReplicaSpec, PreparerAnswer, Order, Report, Environment, ReplicaExit, Record],
)
def test_values_that_a_node_decodes_name_no_union_that_3_9_cannot_evaluate(kind):
    assert [text for text in list_hints(kind) if " | " in text] == []


def list_hints(kind):
    """Yield the types of the fields of a value, and of the values within it, as texts."""
    yield str(kind)
    for part in get_args(kind):
        yield from list_hints(part)
    if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind):
        for hint in get_type_hints(kind).values():
            yield from list_hints(hint)


def test_imports_for_types_alone_are_none():
    source = "if TYPE_CHECKING:\n    import a\ndef f():\n    from b.c import d\nimport e\n"
    assert archive.list_imports(source) == {"b.c", "b.c.d", "e"}
