"""The bundle in the repository is the one that the sources in console/ give."""

import gzip
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from trainshed.api.console.bundle import FOLDER, read_bundle

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "console"
#: As in console/build.mjs.
NO_SOURCES = {"node_modules", "build", "tests", "README.md", ".npmrc"}
NODE = ROOT / ".venv-node/bin"
FIRST_SCRIPT_MAX = 45_000
ALL_MAX = 460_000
_STATIC_IMPORT = re.compile(r"""(?:import|from)\s*["']\./([\w-]+\.js)["']""")


def list_sources():
    for entry in SOURCES.iterdir():
        if entry.name not in NO_SOURCES:
            yield from (path for path in (entry, *entry.rglob("*")) if path.is_file())


def source_digest():
    digest = hashlib.sha256()
    names = sorted(path.relative_to(SOURCES).as_posix() for path in list_sources())
    for name in names:
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((SOURCES / name).read_bytes()).digest())
    return digest.hexdigest()


def bundle_files():
    return {path.name for path in FOLDER.iterdir()}


def test_the_bundle_is_of_these_sources():
    stored = (FOLDER / "sources.sha256").read_text().strip()
    assert stored == source_digest(), "console/ has changed: run make console, and commit its files"
    assert read_bundle().revision == stored[:16]


def test_each_file_has_the_same_content_compressed():
    packed = {name for name in bundle_files() if name.endswith(".gz")}
    assert packed == {f"{name}.gz" for name in bundle_files() if name.endswith((".js", ".css"))}
    for name in packed:
        content = (FOLDER / name.removesuffix(".gz")).read_bytes()
        assert gzip.decompress((FOLDER / name).read_bytes()) == content


def first_scripts():
    """The scripts that a browser loads before the first page is shown."""
    page = (FOLDER / "index.html").read_text()
    todo = re.findall(r'src="/console/static/([\w-]+\.js)"', page)
    names = set()
    while todo:
        name = todo.pop()
        if name not in names:
            names.add(name)
            todo += _STATIC_IMPORT.findall((FOLDER / name).read_text())
    return names


def test_the_page_is_small():
    sizes = {
        name: (FOLDER / f"{name}.gz").stat().st_size
        for name in bundle_files()
        if name.endswith((".js", ".css"))
    }
    names = first_scripts()
    assert len(names) >= 2
    assert sum(sizes[name] for name in names) <= FIRST_SCRIPT_MAX
    assert sum(sizes.values()) <= ALL_MAX


def test_the_page_names_files_of_the_bundle_alone():
    page = (FOLDER / "index.html").read_text()
    addresses = re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page)
    assert len(addresses) >= 3
    for address in addresses:
        assert address.removeprefix("/console/static/") in bundle_files()
    assert page.count("@NONCE@") == 1


def test_licences_name_each_package_that_the_page_imports():
    texts = (FOLDER / "LICENSES.txt").read_text()
    packages = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    sources = "".join(path.read_text() for path in list_sources() if path.suffix in {".ts", ".tsx"})
    for name, version in packages.items():
        # a package that no source imports yet is not in the bundle
        if re.search(rf'from "{re.escape(name)}[/"]|import\("{re.escape(name)}[/"]', sources):
            assert f"{name} {version} (" in texts


def test_versions_are_exact_and_the_lockfile_has_no_address():
    package = json.loads((SOURCES / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    lock = (SOURCES / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "://" not in re.sub(r'"(funding|url)": "[^"]+"|"url": "[^"]+"', "", lock)
    entries = json.loads(lock)["packages"]
    assert all("integrity" in entry for name, entry in entries.items() if name)
    assert "ignore-scripts=true" in (SOURCES / ".npmrc").read_text()


def run_node(*words, **environment):
    if not (NODE / "node").exists() or not (SOURCES / "node_modules").exists():
        pytest.skip("Node and its packages are not installed; make console installs them")
    path = f"{NODE}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        (NODE / "node", *words),
        cwd=SOURCES,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.full
@pytest.mark.slow
def test_a_build_gives_the_same_bytes(tmp_path):
    run_node("build.mjs", CONSOLE_OUT=str(tmp_path / "static"))
    built = {path.name: path for path in (tmp_path / "static").iterdir()}
    assert built.keys() == bundle_files()
    for name, path in built.items():
        # compressing gives other bytes on other processors
        if not name.endswith(".gz"):
            assert path.read_bytes() == (FOLDER / name).read_bytes(), name


@pytest.mark.full
@pytest.mark.slow
def test_types_of_the_api_are_those_of_openapi_json(tmp_path):
    run_node("gen_types.mjs", str(tmp_path / "schemas.ts"))
    assert (tmp_path / "schemas.ts").read_text() == (SOURCES / "src/net/schemas.ts").read_text()


@pytest.mark.full
@pytest.mark.slow
def test_pure_modules_of_the_page():
    assert "fail 0\n" in run_node("test.mjs").stdout
