"""An image as people make them for their trainers: a Python, Google's clients, and the trainers.

It has nothing of ours, and no user but root.
"""

import io
import os
import zipfile
from fnmatch import fnmatch
from pathlib import Path

from conformance.real_code.conftest import HERE, PYTHON
from engines.docker_daemon import add_folders, importing, program
from isolation.python_image import add_python

IMAGE = "trainshed-test/trainers:1"
WHEEL = "trainers-1.0-py3-none-any.whl"
#: Where its modules are.
PACKAGES = "opt/packages"
#: The largest of what no trainer imports that runs in it.
LEFT_OUT = (
    *("clang", "networkx", "sympy", "tensorboard_data_server", "tensorflow/include"),
    *("torch", "torchgen", "xgboost*"),
)


def make(env):
    """Import it into a daemon: 1.7 GB, of which TensorFlow is one half."""
    packages = next((PYTHON.parents[1] / "lib").glob("python3*/site-packages"))
    with importing(env, IMAGE, (f"ENV PYTHONPATH=/{PACKAGES}",)) as archive:
        add_python(archive, PYTHON, [program("sh"), *packages.glob("pyarrow/libarrow.so.*")])
        archive.add(os.path.realpath(program("sh")), "usr/bin/sh")
        add_folders(archive, {str(Path(PACKAGES).parent)})
        archive.add(packages, PACKAGES, filter=_filter_member)
        archive.add(HERE / "trainers", f"{PACKAGES}/trainers", filter=_filter_member)


def _filter_member(member):
    path = Path(member.name).relative_to(PACKAGES)
    is_left_out = path.name == "tests" or any(fnmatch(str(path), name) for name in LEFT_OUT)
    return None if is_left_out else member


def wheel():
    """The trainers alone: to build them from source takes what an image need not have."""
    about = "trainers-1.0.dist-info"
    texts = {f"trainers/{path.name}": path.read_text() for path in HERE.glob("trainers/*.py")}
    texts[f"{about}/METADATA"] = "Metadata-Version: 2.1\nName: trainers\nVersion: 1.0\n"
    texts[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{about}/RECORD"] = ""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return packed.getvalue()
