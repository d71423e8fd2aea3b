"""What pyproject.toml cannot say: the trainer library is needed in this distribution's version."""

import runpy
from pathlib import Path

from setuptools import setup

here = Path(__file__).parent
version = runpy.run_path(str(here / "src/trainshed/__init__.py"))["__version__"]

setup(
    version=version,
    install_requires=[
        f"trainshed-trainer=={version}",  # jobs and reducers import it; needs nothing itself
        "protobuf>=6.31",  # wire messages; 4 MB, loaded with our own descriptors (decision 0002)
        "PyYAML>=6.0",  # config.yaml
        "nvidia-ml-py>=12.535",  # asks NVIDIA's driver for GPUs, local runs too (decision 0031)
        "uv>=0.8",  # package jobs install into content-addressed environments (decision 0005)
    ],
)
