"""A root folder like that of an image without any file: commands run in it as a pod's would.

Beside the folder of a bundle it has /proc, /dev/null and /tmp alone.  It needs root.
"""

import os
import shutil
import subprocess
from pathlib import Path

NULL = os.makedev(1, 3)
#: Where pods have the folder of bundles.
LIB = "/trainshed/lib"
#: Begins a process tree of its own, with its /proc, in the folder of the first argument.
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


def why_not() -> str:
    """What keeps a root of one's own from being made here; empty where nothing does."""
    if os.geteuid() != 0:
        return "a root folder of one's own needs root: run the tests as root"
    absent = [name for name in ("unshare", "mount", "chroot") if not shutil.which(name)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    argv = ["unshare", "--mount", "--pid", "--fork", "true"]
    tried = subprocess.run(argv, check=False, capture_output=True, text=True)
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class EmptyRoot:
    """One such folder, with a bundle."""

    def __init__(self, path: Path, bundle) -> None:
        self.path = path
        self.runtime = f"{LIB}/{bundle.name}"
        for name in ("proc", "dev", "tmp"):
            (path / name).mkdir(parents=True)
        (path / "tmp").chmod(0o1777)
        os.mknod(path / "dev/null", 0o600 | 0o020000, NULL)
        (path / "dev/null").chmod(0o666)
        for name, data in bundle.files.items():
            target = path / self.runtime.lstrip("/") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(0o755)

    def argv(self, *words: str) -> list[str]:
        enter = ("sh", "-c", ENTER, str(self.path))
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", *enter, *words]

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        argv = self.argv(*words)
        env = {"PATH": os.environ["PATH"], **env}
        return subprocess.run(
            argv, env=env, check=False, capture_output=True, text=True, timeout=300
        )
