"""Wheels made by hand, as an index has them; uv finds them without a network."""

import zipfile


def make_wheel(folder, name, version, *, tag="py3-none-any", requires=()):
    """A wheel of one module; ``tag`` says which Python may have it."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
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
