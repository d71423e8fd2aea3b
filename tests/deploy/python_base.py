"""A base image for deploy/Dockerfile: a Python with pip and all that our wheel requires.

The files are those of this machine and of the tests' own environment, because the daemon reaches no
registry.  The interpreter moves to /opt/python: a Python below /root is closed to the image's user.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

from engines.docker_daemon import PROGRAMS, add_folders, importing, libraries, program
from installed.stranger import collect_distributions
from isolation.python_image import leave_out_unused

PREFIX = Path("/opt/python")
#: The extras of the Dockerfile.
EXTRAS = ("server", "postgres", "kubernetes", "remote", "otel")
#: What the Dockerfile and jobs call besides Python.
COMMANDS = (*PROGRAMS, "chmod", "chown")


def make_base(env, image, wheel):
    """Import the base image for a wheel into a daemon."""
    python = Path(sys.base_prefix, "bin", "python3").resolve()
    library = Path(sys.base_prefix, "lib", python.name)
    packages = list_package_files(wheel)
    shells = {Path("/bin", name): program(name) for name in COMMANDS}
    extensions = [path for path in packages if ".so" in path.suffixes]
    linked = libraries(python, *library.glob("lib-dynload/*.so"), *shells.values(), *extensions)
    site = find_site_packages(python)
    files = {PREFIX / "bin" / python.name: python}
    files |= shells | place_libraries(linked)
    files |= {site / name: path for path, name in packages.items()}
    with importing(env, image, (f"ENV PATH={PREFIX}/bin:/usr/bin:/bin",)) as archive:
        folders = {str(folder) for path in files for folder in path.parents}
        folders |= {str(PREFIX / "lib"), "tmp", "etc"}
        add_folders(archive, folders - {str(PREFIX / "lib" / python.name)})  # comes with its files
        for inside, path in files.items():
            archive.add(os.path.realpath(path), str(inside).lstrip("/"))
        archive.add(library, f"{PREFIX}/lib/{python.name}".lstrip("/"), filter=leave_out_unused)
        link = tarfile.TarInfo(f"{PREFIX}/bin/python3".lstrip("/"))
        link.type, link.linkname = tarfile.SYMTYPE, python.name
        archive.addfile(link)


def list_package_files(wheel):
    """The files of pip and of what the wheel requires, with their names in site-packages."""
    info = zipfile.Path(wheel, f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/")
    required = collect_distributions(metadata.PathDistribution(info), EXTRAS, {})
    distributions = [*required.values(), metadata.distribution("pip")]
    return {
        Path(distribution.locate_file(file)): file
        for distribution in distributions
        for file in distribution.files or ()
        if ".." not in file.parts and Path(distribution.locate_file(file)).is_file()
    }


def find_site_packages(python):
    """Where pip installs packages for this interpreter once it lies below PREFIX."""
    base = {"base": str(PREFIX), "platbase": str(PREFIX)}
    code = f"import sysconfig; print(sysconfig.get_path('purelib', vars={base}))"
    return Path(subprocess.check_output([python, "-I", "-c", code], text=True).strip())


def place_libraries(paths):
    """Leave out libraries of packages; put those of the interpreter beside the C library."""
    (system,) = {Path(path).parent for path in paths if Path(path).name == "libc.so.6"}
    own = {path: Path(path) for path in paths if not path.startswith(sys.prefix)}
    below = str(Path(sys.base_prefix, "lib"))
    moved = [path for path in own if path.startswith(below) and sys.base_prefix != "/usr"]
    return {system / Path(path).name if path in moved else at: path for path, at in own.items()}
