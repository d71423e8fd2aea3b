"""What a stranger has: our wheels, what they ask for, and nothing of the repository.

The third-party packages are those of the tests' own Python, linked file by file: an environment has
exactly what the wheels name, and nothing is downloaded.
"""

import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
#: The files that a distribution is made of.
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
OURS = ("trainshed", "trainshed-trainer")
UV = Path(sys.executable).parent / "uv"


def uv(*words):
    subprocess.run([UV, "--quiet", "--offline", "--no-config", *words], check=True)


def make_dist(folder):
    """Both wheels, each from its source distribution; the repository is only read."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in ("src", "trainer"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    build = ("build", "--no-build-isolation", "--python", sys.executable)
    for part in (source, source / "trainer"):
        uv(*build, "--out-dir", folder / "dist", part)
    return folder / "dist"


class Environment:
    """A Python of its own, with the commands that were installed for it."""

    def __init__(self, folder):
        uv("venv", "--python", sys.executable, folder)
        self.bin = folder / "bin"
        (self.site,) = folder.glob("lib/python*/site-packages")
        self.environ = {"HOME": str(folder), "PATH": f"{self.bin}:/usr/bin:/bin"}

    def install(self, dist, requirement):
        """As a stranger does; what others wrote is there already."""
        python = ("--python", self.bin / "python")
        uv("pip", "install", *python, "--no-index", "--find-links", dist, requirement)
        uv("pip", "check", *python)

    def run(self, *words, cwd, env=MappingProxyType({})):
        """A command in a clean environment; what it printed."""
        process = subprocess.run(
            [self.bin / words[0], *words[1:]],
            env={**self.environ, **env},
            cwd=cwd,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=180,
            check=False,
        )
        assert process.returncode == 0, process.stdout
        return process.stdout

    def link(self, dist, *extras):
        """Everybody else's packages that our wheel asks for."""
        (wheel,) = dist.glob("trainshed-*.whl")
        info = zipfile.Path(wheel, f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/")
        for distribution in collect_distributions(
            metadata.PathDistribution(info), extras, {}
        ).values():
            tops = {file.parts[0] for file in distribution.files or ()}
            for name in tops - {"..", "__pycache__"}:
                self._link(name, Path(distribution.locate_file(name)))
        if not (self.bin / "uv").exists():
            (self.bin / "uv").symlink_to(UV)

    def _link(self, name, path):
        place = self.site / name
        if name.endswith(".dist-info"):  # uv does not see links
            shutil.copytree(path, place, dirs_exist_ok=True)
        elif not place.exists():
            place.symlink_to(path)


def collect_distributions(distribution, extras, distributions):
    """Distributions by name, and all that they ask for in turn; ours are not among them."""
    for requirement in map(Requirement, distribution.requires or ()):
        environments = [{"extra": extra} for extra in (*extras, "")]
        if requirement.marker is not None and not any(
            map(requirement.marker.evaluate, environments)
        ):
            continue
        key = (requirement.name, *sorted(requirement.extras))
        if requirement.name not in OURS and key not in distributions:
            distributions[key] = metadata.distribution(requirement.name)
            collect_distributions(distributions[key], requirement.extras, distributions)
    return distributions
