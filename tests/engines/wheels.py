"""Wheels and sources made by hand, as an index has them; uv finds them without a network."""

import io
import tarfile
import zipfile


def make_wheel(folder, name, version, *, tag="py3-none-any", requires=()):
    """A wheel of one module; ``tag`` says which Python may have it."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    files = {f"{name.replace('-', '_')}.py": f"__version__ = {version!r}\n"}
    files |= {
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(inner, text)
    return path


#: A build backend within the source itself, so that nothing is fetched to build it.
_BACKEND = """
import io
import tarfile
import zipfile
NAME, VERSION, BUILDS, TRIED = {name!r}, {version!r}, {builds!r}, {tried!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    if not BUILDS:
        open(TRIED, "w").close()
        raise SystemExit("fatal error: frame.h is gone")
    stem = NAME + "-" + VERSION
    with zipfile.ZipFile(folder + "/" + stem + "-py3-none-any.whl", "w") as archive:
        archive.writestr(NAME + ".py", "__version__ = " + repr(VERSION))
        info = stem + ".dist-info/"
        archive.writestr(info + "METADATA", open("PKG-INFO").read())
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return stem + "-py3-none-any.whl"
"""
_PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def make_sdist(folder, name, version, *, builds=True, says="2.2"):
    """A source of one module; one that ``says`` metadata of before 2.2 is built to be resolved.

    One that does not build leaves a file ``.tried`` beside itself when that is tried.
    """
    stem = f"{name}-{version}"
    files = {
        "PKG-INFO": f"Metadata-Version: {says}\nName: {name}\nVersion: {version}\n",
        "pyproject.toml": _PROJECT,
        "backend.py": _BACKEND.format(
            name=name, version=version, builds=builds, tried=f"{folder}/{stem}.tried"
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in files.items():
            entry = tarfile.TarInfo(f"{stem}/{inner}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path
