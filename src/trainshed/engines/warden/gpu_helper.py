"""The helper process of a replica with GPUs on a node: reads the GPUs and writes their figures.

It is a process of its own, because a driver that hangs must not stop the warden, and because it
needs more memory than a warden.  It ends with its parent.  Without a driver it ends at once, and
the GPUs count as not measured.

warden.pyz gpus FILE
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Final

from trainshed.engines.processes import tree
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, name_node
from trainshed.engines.supervise.record.gpu_file import EVERY_S, locate_gpu_file, write_gpu_file
from trainshed.engines.supervise.record.gpu_means import GpuMeans
from trainshed.model.trainer_contract import JOB

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
#: Seconds between two readings, and between two tries to open the driver.
_READ_S: Final = 1.0
_RETRY_S: Final = 30.0


def start_helper(  # noqa: PLR0913 - the objects that a helper uses
    loop: Loop,
    children: Children,
    descriptors: tuple[int, int],
    *,
    note: Callable[[str], object],
    mark: str,
    folder: AttemptFolder,
) -> str:
    """Start the helper; return the path of the file that it will write, in ``folder``.

    It ends with this process, or at SIGTERM as all processes that a replica leaves.
    ``descriptors`` are the soft and the hard limit of open files; ``note`` gets a line for the
    log if the GPUs cannot be measured.
    """
    from trainshed.engines.supervise.helpers.helper import Helper  # noqa: PLC0415 - few have GPUs
    from trainshed.engines.warden.completion import compose_interpreter  # noqa: PLC0415 - see above

    parent, path = os.getpid(), locate_gpu_file(folder, is_on_cluster=True)

    def take_line(line: str, stream: str) -> None:
        if stream == "stdout":
            note(line)

    helper = Helper(loop, children, descriptors, on_line=take_line, on_exit=lambda _: None)
    archive = os.path.abspath(sys.argv[0])
    argv = (*compose_interpreter(), "-I", "-S", archive, "gpus", path)
    env = {**os.environ, JOB: mark}
    helper.start(argv, env, "/", enter=lambda: tree.die_with_parent(parent))
    return path


def main(path: str) -> int:
    """Write the figures of this process's GPUs until a signal ends it; return without a driver.

    Prints once why the GPUs are not measured.
    """
    from trainshed.engines.warden.driver import LIBRARY, has_driver  # noqa: PLC0415 - needs ctypes

    if not has_driver():
        _report(f"there is no {LIBRARY}; in a container, NVIDIA_DRIVER_CAPABILITIES needs utility")
        return 0
    has_reported = False
    while True:
        try:
            _watch(path)
        except OSError as error:
            if not has_reported:
                _report(f"{error}; trying again every {_RETRY_S:g} s")
            has_reported = True
        time.sleep(_RETRY_S)


def _report(why: str) -> None:
    sys.stdout.write(f"cannot measure the GPUs of the replica on {name_node()}: {why}\n")
    sys.stdout.flush()


def _watch(path: str) -> None:
    """Read and write.  Raises OSError if the driver does not work or the file cannot be written."""
    from trainshed.engines.warden.driver import Driver, select_visible  # noqa: PLC0415 - needs ctypes

    driver = Driver()
    gpus = select_visible(driver.list_gpus(), os.environ.get(VISIBLE))
    means = {gpu.uuid: GpuMeans() for gpu in gpus}
    due_s = time.monotonic()
    if not means:
        raise OSError("the driver lists no GPU that the replica may use")
    while True:
        for gpu in gpus:
            means[gpu.uuid].add(driver.read_figures(gpu), time.monotonic())
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + EVERY_S  # what a driver that hung has missed is left out
            figures = {uuid: mean.take() for uuid, mean in means.items()}
            write_gpu_file(path, time.time(), figures)
        time.sleep(_READ_S)
