"""Copies small files that a program writes, from its warden's folder to the attempt's folder.

Every warden sends the time of its program's heartbeat.  A warden that cannot write to the attempt's
folder also sends the other files: once a minute, in case its node is lost, with the first
checkpoint, which lets a study pause the trial, and with the exit.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Optional

from trainshed.engines.supervise.record.folder import AttemptFolder, read_file
from trainshed.files.beneath import PathBeneath
from trainshed.model import trainer_contract

#: Seconds between two messages of a warden with the files of a running program.
EVERY_S: Final = 60.0
#: Limit of one file, also as JSON.  A message may have four times as many bytes, and also has the
#: last report of the program and its GPUs.
_BYTES_MAX: Final = 1 << 18
_PRIVATE_FILE: Final = 0o600


def list_paths(folder: AttemptFolder, task_name: str) -> dict[str, str]:
    """Map each variable that names such a file to the file's path in a folder."""
    return {
        trainer_contract.STEPS_FILE: folder.steps(task_name),
        trainer_contract.REDUCTION_REPORT: folder.reduction,
    }


def read_texts(folder: AttemptFolder, task_name: str) -> dict[str, str]:
    """Read the files of a program from its warden's folder, by variable.

    Leave out missing files, and those that are too long for a message.
    """
    texts = {}
    for variable, path in list_paths(folder, task_name).items():
        with suppress(OSError, ValueError):
            place = PathBeneath.of_file(path, (folder.path,))
            text = read_file(place, bytes_max=_BYTES_MAX).decode("ascii")
            if len(json.dumps(text)) <= _BYTES_MAX:
                texts[variable] = text
    return texts


def has_checkpoint(folder: AttemptFolder, task_name: str) -> bool:
    """Return whether a program has reported a complete checkpoint, in its warden's folder.

    The launcher checks the file as a whole; a node has only this reader.
    """
    text = read_texts(folder, task_name).get(trainer_contract.STEPS_FILE, "")
    with suppress(ValueError, RecursionError, AttributeError, TypeError):
        return bool(json.loads(text).get("checkpoint_at") > 0)
    return False


class DueFiles:
    """The files of a program that its warden sends while the program runs.

    They are due once a minute, and in the first beat after the first checkpoint: a study stops a
    trial, and does not pause it, until the server knows of a checkpoint.
    """

    def __init__(self, now_s: float) -> None:
        """Begin the first minute."""
        self._sent_s = now_s
        self._has_saved = False

    def read(self, folder: AttemptFolder, task_name: str, now_s: float) -> Mapping[str, str]:
        """Read the files if they are due, by variable; else none."""
        is_first = not self._has_saved and has_checkpoint(folder, task_name)
        self._has_saved |= is_first
        if not is_first and now_s - self._sent_s < EVERY_S:
            return {}
        self._sent_s = now_s
        return read_texts(folder, task_name)


def write_texts(folder: AttemptFolder, task_name: str, texts: Mapping[str, Any]) -> None:
    """Replace the files of a program in the attempt's folder; ignore errors."""
    for variable, path in list_paths(folder, task_name).items():
        if variable in texts:
            with suppress(OSError):
                _replace(path, str(texts[variable]))


def read_beat_ns(folder: AttemptFolder, task_name: str) -> Optional[int]:
    """Return the time of a program's last heartbeat; None: none yet."""
    try:
        return os.lstat(folder.progress(task_name)).st_mtime_ns  # a program may leave a link
    except OSError:
        return None


def touch(path: str, beat_ns: int) -> None:
    """Set the time of a heartbeat file in the attempt's folder, which is created if missing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        descriptor = os.open(path, flags, _PRIVATE_FILE)
        try:
            os.utime(descriptor, ns=(beat_ns, beat_ns))
        finally:
            os.close(descriptor)


def _replace(path: str, text: str) -> None:
    """Write a file completely or not at all.  Raises OSError."""
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w", opener=_open_private) as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, _PRIVATE_FILE)
