"""The helper process of a replica with GPUs on a node: reads the GPUs and writes their figures.

It is a process of its own, because a driver that hangs must not stop the warden, and because it
needs more memory than a warden.  It ends with its parent.  Without a driver it ends at once, and
the GPUs count as not measured.

warden.pyz gpus FILE
"""

import os
import sys
import time
from contextlib import suppress
from typing import Final

from trainshed.engines.processes import tree
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.gpu_file import EVERY_S, locate_gpu_file, write_gpu_file
from trainshed.engines.supervise.record.gpu_means import GpuMeans
from trainshed.model.trainer_contract import JOB

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
#: Seconds between two readings, and between two tries to open the driver.
_READ_S: Final = 1.0
_RETRY_S: Final = 30.0


def start_helper(
    loop: Loop,
    children: Children,
    descriptors: tuple[int, int],
    mark: str,
    folder: AttemptFolder,
) -> str:
    """Start the helper; return the path of the file that it will write, in ``folder``.

    It ends with this process, or at SIGTERM as all processes that a replica leaves.
    ``descriptors`` are the soft and the hard limit of open files.
    """
    from trainshed.engines.supervise.helpers.helper import Helper  # noqa: PLC0415 - few have GPUs
    from trainshed.engines.warden.completion import compose_interpreter  # noqa: PLC0415 - see above

    parent, path = os.getpid(), locate_gpu_file(folder, is_on_cluster=True)
    helper = Helper(loop, children, descriptors, on_line=_ignore, on_exit=_ignore)
    archive = os.path.abspath(sys.argv[0])
    argv = (*compose_interpreter(), "-I", "-S", archive, "gpus", path)
    env = {**os.environ, JOB: mark}
    helper.start(argv, env, "/", enter=lambda: tree.die_with_parent(parent))
    return path


def main(path: str) -> int:
    """Write the figures of this process's GPUs until a signal ends it; return without a driver."""
    from trainshed.engines.warden.driver import has_driver  # noqa: PLC0415 - needs ctypes

    while has_driver():
        with suppress(OSError):
            _watch(path)
        time.sleep(_RETRY_S)
    return 0


def _watch(path: str) -> None:
    """Read and write.  Raises OSError if the driver does not work or the file cannot be written."""
    from trainshed.engines.warden.driver import Driver, select_visible  # noqa: PLC0415 - needs ctypes

    driver = Driver()
    gpus = select_visible(driver.list_gpus(), os.environ.get(VISIBLE))
    means = {gpu.uuid: GpuMeans() for gpu in gpus}
    due_s = time.monotonic()
    while means:
        for gpu in gpus:
            means[gpu.uuid].add(driver.read_figures(gpu), time.monotonic())
        if time.monotonic() >= due_s:
            due_s += EVERY_S
            figures = {uuid: mean.take() for uuid, mean in means.items()}
            write_gpu_file(path, time.time(), figures)
        time.sleep(_READ_S)


def _ignore(*_: object) -> None:
    """Ignore the output and the exit: the GPUs are not measured then."""
