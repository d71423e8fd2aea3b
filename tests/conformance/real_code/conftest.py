"""Fixtures of the trainers: their data, their package, and a server with their packages."""

import contextlib
import io
import random
import tarfile
from pathlib import Path

import pytest

from e2e.support import NO_PUBLIC, PROJECT, good, serving

HERE = Path(__file__).parent
#: Has what the images of Google have; `make test` makes it.
PYTHON = Path(__file__).parents[3] / ".venv-gs/bin/python"
BUCKET = "real-code"
PACKAGE = f"gs://{BUCKET}/packages/trainers-1.0.tar.gz"
SETUP = """\
from setuptools import setup
setup(name="trainers", version="1.0", packages=["trainers"])
"""

CONFIG = f"""\
{NO_PUBLIC}
[[environment]]
name = "gs"
python = "{PYTHON}"

[[image]]
image = "gcr.io/*"
environment = "gs"

[[image]]
runtime_version = "*"
environment = "gs"
"""


def iris():
    """A table of 150 rows of three kinds that any model can distinguish."""
    draw = random.Random(1)  # noqa: S311
    rows = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    for n in range(150):
        numbers = (f"{1 + n % 3 + draw.random() / 2:.2f}" for _ in range(4))
        rows.append(",".join((*numbers, ("setosa", "versicolor", "virginica")[n % 3])))
    return "\n".join(rows) + "\n"


def package():
    """The trainers, as `setup.py sdist` packs them."""
    files = {f"trainers/{path.name}": path.read_text() for path in HERE.glob("trainers/*.py")}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {"setup.py": SETUP, **files}.items():
            about = tarfile.TarInfo(f"trainers-1.0/{name}")
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    return packed.getvalue()


@contextlib.contextmanager
def prepared(folder, mode="", config="", program=None):
    """A server of a mode of isolation, with the data and the package in a bucket."""
    walls = f'[isolation]\nmode = "{mode}"\nallow_root_jobs = true\n' if mode else ""
    with serving(folder, config=config + walls + CONFIG, program=program) as server:
        good(server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": BUCKET}))
        place(server.data_dir / "buckets" / BUCKET)
        yield server


def place(bucket):
    """Put data and package into a bucket's folder."""
    for folder in ("data", "packages"):
        (bucket / folder).mkdir(parents=True)
    (bucket / "data" / "iris.csv").write_text(iris())
    (bucket / PACKAGE.removeprefix(f"gs://{BUCKET}/")).write_bytes(package())


@pytest.fixture(scope="module")
def real_server(tmp_path_factory):
    with prepared(tmp_path_factory.mktemp("real")) as real_server:
        yield real_server
