"""Makes a folder of programs for all replicas of an interpreter: its console scripts, and pip.

A replica runs Python from an overlay of its own (``overlay``).  The console scripts of the mapped
environment name its interpreter in their first line, and would run without the overlay.  So this
module copies them once for each state of the environment, with ``env python3`` as their
interpreter, into a folder that every replica reads and none writes.  Links to each script in each
replica were rejected: an environment has hundreds of scripts, and a start may take only
milliseconds.
"""

import errno
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.processes.interpreter import ANSWER_S_MAX, ask_interpreter
from trainshed.files.trees import remove_tree
from trainshed.model.faults import TransientFault

#: The name of the folder, next to the folder of the attempts.
FOLDER: Final = "replica-tools"
#: Increase this when the content of the folder changes.
_FORMAT: Final = 1
_FACTS: Final = "facts.json"
_SITE: Final = "site-packages"
#: Errors that mean that there is no program to start.
_NO_PROGRAM: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP}
)
_SCRIPT_BYTES_MAX: Final = 1 << 16
_FOLDER_MODE: Final = 0o755
_PROGRAM_MODE: Final = 0o755
_READABLE: Final = 0o644
_MAGIC: Final = b"#!"
_ANY_PYTHON: Final = "/usr/bin/env python3"
#: The folders of the system's programs, from which only pip's are copied.
_SYSTEM: Final = frozenset({"/usr/bin", "/bin"})
_LOCAL: Final = "/usr/local/bin"
#: The folder of Debian's wheels for ensurepip.
_DEBIAN_WHEELS: Final = "/usr/share/python-wheels"

#: Programs that would change the machine; their replacements exit with the status of apt.
SYSTEM_INSTALLERS: Final = ("apt", "apt-get", "aptitude", "yum", "dnf", "apk")
_ADVICE: Final = """\
#!/bin/sh
echo "$(basename "$0"): a job cannot install packages of the system; \
install them on the machine, or run the job in a container image that has them" >&2
exit 100
"""
_PIP: Final = """\
#!/usr/bin/env python3
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""

_SCRIPT: Final = """
import importlib.util, json, os, site, sys, sysconfig
spec = importlib.util.find_spec("ensurepip")
wheels = [os.path.join(os.path.dirname(spec.origin), "_bundled")] if spec and spec.origin else []
wheels.append(sysconfig.get_config_var("WHEEL_PKG_DIR"))
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "executable": sys.executable,
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "sites": site.getsitepackages(),
    "has_pip": importlib.util.find_spec("pip") is not None,
    "wheels": [folder for folder in wheels if folder],
}))
"""


class InterpreterFacts(NamedTuple):
    """The parts of an interpreter from which its overlays are made."""

    program: str
    """The executable file itself, after all links."""
    home: str
    """The folder that ``pyvenv.cfg`` names: of the interpreter below a virtual environment."""
    version: str
    """The version, such as 3.11."""
    sites: tuple[str, ...]
    """The package folders of a virtual environment; empty for any other interpreter."""
    shows_base: bool
    """Whether programs also see the packages of the interpreter below a virtual environment."""


class ReplicaTools(NamedTuple):
    """A folder of programs for the replicas of an interpreter."""

    folder: str
    facts: InterpreterFacts | None
    """None for an interpreter that cannot have an overlay: Python 2, or one that does not run."""

    @property
    def bin(self) -> str:
        """The folder for PATH."""
        return f"{self.folder}/bin"

    @property
    def site(self) -> str:
        """The folder with pip for an environment without it; empty if the environment has pip."""
        path = f"{self.folder}/{_SITE}"
        return path if os.path.isdir(path) else ""


def tools_of(python: str, parent: Path) -> ReplicaTools:
    """Return the tools of an interpreter in a folder below ``parent``; make the folder if needed.

    Raises OSError or EngineFault.
    """
    folder = parent / FOLDER / _name_of(python)
    if not (folder / _FACTS).exists():
        _make(python, folder)
    fields = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    facts = fields and InterpreterFacts(**{**fields, "sites": tuple(fields["sites"])})
    return ReplicaTools(str(folder), facts)


def _name_of(python: str) -> str:
    """Return a name that changes when the environment's scripts or interpreter change."""
    real = os.path.realpath(python)
    parts = [str(_FORMAT), python, real]
    parent = os.path.dirname(python)
    for path in (real, parent, f"{os.path.dirname(parent)}/pyvenv.cfg"):
        with suppress(OSError):
            parts.append(str(os.stat(path).st_mtime_ns))
    import hashlib  # noqa: PLC0415  # the command line imports this module, and rarely calls it

    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make(python: str, folder: Path) -> None:
    """Make the folder under another name first, so that replicas see only a complete folder."""
    folder.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    folder.parent.chmod(_FOLDER_MODE)  # with any umask: replicas are other users
    draft = folder.with_name(f".{os.urandom(4).hex()}")
    draft.mkdir()
    try:
        _fill_folder(python, draft)
        _open(draft)
        with suppress(OSError):  # another process was faster
            draft.rename(folder)
    finally:
        if draft.exists():
            remove_tree(draft)


class _Answer(NamedTuple):
    """The answer of an interpreter to the questions of ``_SCRIPT``."""

    version: str
    executable: str
    prefix: str
    base_prefix: str
    sites: list[str]
    has_pip: bool
    wheels: list[str]


def _fill_folder(python: str, folder: Path) -> None:
    (folder / "bin").mkdir()
    for name in SYSTEM_INSTALLERS:
        (folder / "bin" / name).write_text(_ADVICE)
    answer = _describe_interpreter(python)
    if answer is not None:
        _copy_scripts(answer.executable, folder / "bin")
        if not answer.has_pip:
            _unpack_pip(answer.wheels, folder / _SITE)
        if answer.has_pip or (folder / _SITE).exists():
            _add_pip(answer.version, folder / "bin")
    facts = None if answer is None else _facts_of(answer)._asdict()
    (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _describe_interpreter(python: str) -> _Answer | None:
    import subprocess  # noqa: PLC0415  # once for each interpreter

    try:
        return _Answer(**ask_interpreter(python, _SCRIPT))
    except subprocess.TimeoutExpired as error:
        raise TransientFault(f"{python} does not answer within {ANSWER_S_MAX:g} s") from error
    except OSError as error:
        if error.errno in _NO_PROGRAM:
            return None
        raise  # such as no memory: a passing error must not be stored as a fact
    except subprocess.CalledProcessError as error:
        if error.returncode == -signal.SIGKILL:
            raise TransientFault(f"{python} was killed while it printed its version") from error
        return None
    except (ValueError, TypeError):
        return None


def _facts_of(answer: _Answer) -> InterpreterFacts:
    program = os.path.realpath(answer.executable)
    if answer.prefix == answer.base_prefix:
        home = os.path.dirname(answer.executable)
        return InterpreterFacts(program, home, answer.version, (), shows_base=True)
    settings = _settings_of(answer.prefix)
    return InterpreterFacts(
        program=program,
        home=settings.get("home", os.path.dirname(program)),
        version=answer.version,
        sites=tuple(site for site in answer.sites if site.startswith(f"{answer.prefix}/")),
        shows_base=settings.get("include-system-site-packages") == "true",
    )


def _settings_of(prefix: str) -> dict[str, str]:
    """Return the settings of a virtual environment's ``pyvenv.cfg``, by name."""
    text = Path(prefix, "pyvenv.cfg").read_text(encoding="utf-8")
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _copy_scripts(executable: str, target: Path) -> None:
    """Copy the console scripts of an interpreter; the copies run in the first Python on PATH."""
    own = os.path.dirname(executable)
    for script in _list_scripts(own):
        if text := _rewrite_script(script, own):
            (target / script.name).write_bytes(text)


def _list_scripts(own: str) -> Iterator[Path]:
    if own not in _SYSTEM:
        yield from Path(own).iterdir()
        return
    yield from Path(own).glob("pip*")
    with suppress(OSError):
        yield from Path(_LOCAL).iterdir()


def _rewrite_script(script: Path, own: str) -> bytes:
    """Return the rewritten text of a script; empty if no interpreter in ``own`` runs the file."""
    with suppress(OSError):
        if not script.is_file() or script.stat().st_size > _SCRIPT_BYTES_MAX:
            return b""
        first, _, rest = script.read_bytes().partition(b"\n")
        interpreter = f"{own}/python".encode()
        if not first.startswith(_MAGIC):
            return b""
        if first.removeprefix(_MAGIC).strip().startswith(interpreter):
            return f"#!{_ANY_PYTHON}\n".encode() + rest
        # for a path too long for the kernel: sh runs the second line, Python ignores it as a string
        second, _, program = rest.partition(b"\n")
        if second.startswith(b"'''exec'") and interpreter in second:
            return f"#!{_ANY_PYTHON}\n{second.decode()[:3]}\n".encode() + program
    return b""


def _unpack_pip(folders: list[str], target: Path) -> None:
    """Unpack a wheel of pip: the interpreter's wheel for virtual environments, or the server's."""
    import zipfile  # noqa: PLC0415  # once for each interpreter

    wheels = [
        wheel
        for folder in (*folders, _DEBIAN_WHEELS, *_wheels_of_server())
        for wheel in Path(folder).glob("pip-*.whl")
    ]
    for wheel in wheels[:1]:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)  # a wheel of an interpreter, not of a job


def _wheels_of_server() -> Iterator[str]:
    import importlib.util  # noqa: PLC0415  # once for each interpreter

    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin is not None:
        yield f"{os.path.dirname(spec.origin)}/_bundled"


def _add_pip(version: str, folder: Path) -> None:
    for name in ("pip", f"pip{version.partition('.')[0]}", f"pip{version}"):
        if not (folder / name).exists():
            (folder / name).write_text(_PIP)


def _open(folder: Path) -> None:
    """Let every user of the machine read the folder, with any umask."""
    for path, _, files in os.walk(folder):
        os.chmod(path, _FOLDER_MODE)
        mode = _PROGRAM_MODE if path == str(folder / "bin") else _READABLE
        for name in files:
            os.chmod(os.path.join(path, name), mode)
