"""Removes trees that programs have made, however deep they are.

``shutil.rmtree`` calls itself for each level, and a thousand of them are too many for it.
"""

import os

from trainshed.files.beneath import Beneath, Kind

#: Deeper ones take days to make; somebody adds to it while it is removed.
_DEPTH_MAX = 1 << 16


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a folder with all below it; links are removed and not followed.  Raises OSError."""
    above, name = os.path.split(os.fspath(path))
    with Beneath(above) as outside:
        with outside.folder(name) as top:
            for _ in range(_DEPTH_MAX):
                if not _level(top):
                    break
        with outside.folder() as folder:
            os.rmdir(name, dir_fd=folder)


def _level(top: int) -> bool:
    """Remove the first level; what lies in its folders is the first level then.  False: none."""
    with Beneath(f"/proc/self/fd/{top}") as tree:
        entries = tree.entries()
        for name, kind in entries:
            if kind is Kind.FOLDER:
                _lift(tree, name, top)
            else:
                os.unlink(name, dir_fd=top)
    return bool(entries)


def _lift(tree: Beneath, folder: str, top: int) -> None:
    with tree.folder(folder) as below:
        for name, kind in tree.entries(folder):
            if kind is Kind.FOLDER:
                os.rename(name, os.urandom(16).hex(), src_dir_fd=below, dst_dir_fd=top)
            else:
                os.unlink(name, dir_fd=below)
    os.rmdir(folder, dir_fd=top)
