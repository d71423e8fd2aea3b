"""What pyproject.toml cannot say: the trainer library in our version, where the man page goes."""

import runpy
from pathlib import Path

from setuptools import setup

here = Path(__file__).parent
version = runpy.run_path(str(here / "src/trainshed/__init__.py"))["__version__"]

setup(
    version=version,
    # man finds it beside the bin folder of an environment that is on PATH
    data_files=[("share/man/man1", ["src/trainshed/cli/shell/trainshed.1"])],
    install_requires=[
        f"trainshed-trainer=={version}",  # jobs and reducers import it; needs nothing itself
        "protobuf>=6.31",  # wire messages; 4 MB, loaded with our own descriptors (decision 0002)
        "PyYAML>=6.0",  # config.yaml
        "nvidia-ml-py>=12.535",  # asks NVIDIA's driver for GPUs, local runs too (decision 0031)
        "uv>=0.8",  # package jobs install into content-addressed environments (decision 0005)
    ],
)
